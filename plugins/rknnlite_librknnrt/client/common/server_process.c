/* The server process: one for this process, started at the first context.
 *
 * The kernel kills it together with this process: it owns the reading end of a pipe (the leash) that signals when
 * the last writing end is closed. PR_SET_PDEATHSIG would kill it already when the thread that started it ends. It is no
 * child of this process (detached_spawn.c); whether it lives tells the socket.
 */
#include "client.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define START_LIMIT 120 /* seconds; an emulated board takes half a minute */
#define END_LIMIT 2000  /* milliseconds */
#define DOUBT_LIMIT 300 /* milliseconds */
#define ROOM 4096
#define MORE_FILES "the limit of open files is too low: raise it (ulimit -n 256), or close some"

extern char **environ;

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t server;
static int control = -1; /* each descriptor sent over it becomes a thread of the server */
static int leash = -1;
static bool doubted; /* a connection to it has ended */

/* -- which interpreter ---------------------------------------------------------------------------- */

static char denied[ROOM]; /* a Python that is there, perhaps, and that this user may not run */

static bool is_program(const char *path)
{
    struct stat status;
    bool there = stat(path, &status) == 0;
    if (there && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
        return true;
    if (errno == EACCES && (!there || S_ISREG(status.st_mode)))
        snprintf(denied, sizeof denied, "%s", path);
    return false;
}

/* The first line of the file ``interpreter`` beside this library. */
static bool recorded(const char *folder, char *path, size_t room)
{
    char name[ROOM + 16];
    snprintf(name, sizeof name, "%s/interpreter", folder);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    bool found = fgets(path, (int)room, file) != NULL;
    fclose(file);
    if (found)
        path[strcspn(path, "\r\n")] = 0;
    return found && *path;
}

/* A library in PREFIX/lib/python3.X/site-packages/... belongs to PREFIX/bin/python3.X. */
static bool installed(const char *folder, char *path, size_t room)
{
    const char *lib = NULL, *at = folder;
    while ((at = strstr(at, "/lib/python3")) != NULL)
        lib = at++;
    if (!lib)
        return false;
    const char *name = lib + strlen("/lib/");
    snprintf(path, room, "%.*s/bin/%.*s", (int)(lib - folder), folder, (int)strcspn(name, "/"), name);
    return is_program(path);
}

static bool of_environment(char *path, size_t room)
{
    const char *environment = getenv("VIRTUAL_ENV");
    if (!environment || !*environment)
        return false;
    snprintf(path, room, "%s/bin/python3", environment);
    return is_program(path);
}

static void choose_interpreter(char *path, size_t room)
{
    *denied = 0;
    const char *named = getenv("RKNNLITE_PYTHON");
    if (named && *named) {
        snprintf(path, room, "%s", named);
        return;
    }
    Dl_info here;
    if (dladdr(&library, &here) && here.dli_fname && strchr(here.dli_fname, '/')) {
        char folder[ROOM];
        snprintf(folder, sizeof folder, "%s", here.dli_fname);
        *strrchr(folder, '/') = 0;
        if (recorded(folder, path, room) || installed(folder, path, room))
            return;
    }
    if (!of_environment(path, room))
        snprintf(path, room, "/usr/bin/python3");
}

/* -- starting it ---------------------------------------------------------------------------------- */

/* The environment without what would make another Python, or load this library into the server. */
static char **scrubbed(void)
{
    static const char *const out[] = {"PYTHON", "LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "MALLOC_",
                                      "ASAN_OPTIONS=", "__PYVENV_LAUNCHER__="};
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **clean = calloc(count + 1, sizeof *clean);
    size_t kept = 0;
    for (size_t i = 0; clean && i < count; i++) {
        bool drop = false;
        for (size_t j = 0; j < sizeof out / sizeof *out; j++)
            drop = drop || strncmp(environ[i], out[j], strlen(out[j])) == 0;
        if (!drop)
            clean[kept++] = environ[i];
    }
    return clean;
}

/* Descriptors 0 to 2 may be closed in this process; what is made for the server stays clear of them. */
static int high(int fd)
{
    if (fd < 0)
        return fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 16), why = errno;
    close(fd);
    errno = why == EINVAL ? EMFILE : why; /* a limit of 16 */
    return copy;
}

/* What the interpreter says on stderr before the server is up: its last line. */
static void last_words(int said, char *text, size_t room)
{
    char all[ROOM];
    ssize_t size = pread(said, all, sizeof all - 1, lseek(said, 0, SEEK_END) > ROOM ? lseek(said, 0, SEEK_END) - ROOM + 1 : 0);
    all[size > 0 ? size : 0] = 0;
    for (size_t end = strlen(all); end && (all[end - 1] == '\n' || all[end - 1] == ' '); end--)
        all[end - 1] = 0;
    const char *line = strrchr(all, '\n');
    snprintf(text, room, "%.1000s", line ? line + 1 : all);
}

static pid_t spawn(const char *python, int sock, int pipe_end, int said, int *error)
{
    static const char code[] = "import os, sys\nsys.path.pop(0)\ntry:\n from rknnlite_librknnrt.server import main\n"
                               "except ImportError:\n [os.listdir(p) for p in sys.path if os.path.isdir(p)]\n raise\n"
                               "main()"; /* a folder that it may not read would only seem to lack the package */
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    pid_t pid = -1;
    char *arguments[] = {(char *)python, "-E", "-c", (char *)code, NULL};
    char **environment = scrubbed();
    sigemptyset(&none);
    sigfillset(&defaults);
    sigdelset(&defaults, SIGKILL);
    sigdelset(&defaults, SIGSTOP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    /* 3: requests; 4: the leash; 5: where messages go later, which is this process's stderr */
    posix_spawn_file_actions_adddup2(&files, sock, 3);
    posix_spawn_file_actions_adddup2(&files, pipe_end, 4);
    bool has_stderr = fcntl(2, F_GETFD) >= 0;
    posix_spawn_file_actions_adddup2(&files, has_stderr ? 2 : said, 5);
    posix_spawn_file_actions_adddup2(&files, said, 1);
    posix_spawn_file_actions_adddup2(&files, said, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0); /* Ctrl-C is for the program */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    const struct detached_program program = {python, arguments, environment, &files, &attributes};
    *error = ENOMEM;
    if (environment)
        pid = detached_spawn(&program, error);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return *error ? -1 : pid;
}

/* Whether the server has ended, waiting for it up to so many milliseconds. */
static bool ends(int milliseconds)
{
    char byte;
    struct pollfd wait = {.fd = control, .events = POLLIN};
    if (control < 0)
        return true;
    while (poll(&wait, 1, milliseconds) < 0 && errno == EINTR)
        continue;
    ssize_t got = recv(control, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static void forget(void)
{
    if (control >= 0)
        close(control);
    if (leash >= 0)
        close(leash);
    control = leash = -1;
    server = 0;
}

/* It keeps nothing that would have to be written. */
void server_stop(void)
{
    if (server > 0 && !ends(0)) {
        kill(server, SIGKILL);
        ends(END_LIMIT);
    }
    forget();
}

/* Wait for the server's first word: its version of the protocol; 0: it ended, or was silent for too long. */
static uint32_t greeted(int sock)
{
    uint32_t hello[2] = {0, 0};
    struct pollfd wait = {.fd = sock, .events = POLLIN};
    time_t end = time(NULL) + START_LIMIT;
    int ready;
    do
        ready = poll(&wait, 1, 1000);
    while (ready == 0 ? time(NULL) < end : ready < 0 && errno == EINTR);
    return ready > 0 && wire_recv(sock, hello, sizeof hello, NULL, NULL) ? hello[0] : 0;
}

static bool no_descriptors(int said, const int *socks, const int *pipes)
{
    failed(library.opener, library.unavailable, "no descriptors for the process that computes: %s%s%s", strerror(errno),
           errno == EMFILE ? "; " : "", errno == EMFILE ? MORE_FILES : "");
    const int all[] = {said, socks[0], socks[1], pipes[0], pipes[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
    return false;
}

/* What to do about a Python that does not start: ``error`` of the kernel, ``why`` in its own last words. */
static void say_remedy(const char *python, int error, const char *why, char *text, size_t room)
{
    const char *denial = *denied ? denied : error == EACCES ? python : NULL;
    if (error == EMFILE || strstr(why, "Too many open files"))
        snprintf(text, room, "%s", MORE_FILES);
    else if (denial || strstr(why, "Permission denied"))
        snprintf(text, room,
                 "this user has no permission for %s: let it enter and read the folders on the way there, as another "
                 "user's home is one, or name another Python in RKNNLITE_PYTHON",
                 denial ? denial : "a folder of that Python's");
    else
        snprintf(text, room, "install rknnlite for it, or name another Python in RKNNLITE_PYTHON");
}

static bool start(void)
{
    char python[ROOM], why[ROOM], remedy[2 * ROOM];
    int socks[2] = {-1, -1}, pipes[2] = {-1, -1}, error = 0;
    choose_interpreter(python, sizeof python);
    int said = high(wire_memory(0));
    if (said < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) != 0 || pipe2(pipes, O_CLOEXEC) != 0) {
        return no_descriptors(said, socks, pipes);
    }
    for (int i = 0; i < 2; i++) {
        socks[i] = high(socks[i]);
        pipes[i] = high(pipes[i]);
    }
    if (socks[0] < 0 || socks[1] < 0 || pipes[0] < 0 || pipes[1] < 0) {
        errno = EMFILE;
        return no_descriptors(said, socks, pipes);
    }
    server = spawn(python, socks[1], pipes[0], said, &error);
    control = socks[0];
    leash = pipes[1];
    if (server > 0) { /* O_ASYNC: the end of the writing side sends the server SIGKILL */
        fcntl(pipes[0], F_SETOWN, server);
        fcntl(pipes[0], F_SETSIG, SIGKILL);
        fcntl(pipes[0], F_SETFL, fcntl(pipes[0], F_GETFL) | O_ASYNC);
    }
    close(socks[1]);
    close(pipes[0]);
    uint32_t spoken = server > 0 ? greeted(control) : 0;
    bool up = spoken == PROTOCOL_VERSION;
    if (!up && spoken) {
        server_stop();
        failed(library.opener, library.unavailable,
               "the rknnlite of %s speaks version %u of the protocol, this library %d: they are of different versions; "
               "ask for the library once more (rknnlite librknnrt --dir), or name another Python in RKNNLITE_PYTHON",
               python, spoken, PROTOCOL_VERSION);
    } else if (!up) {
        if (server > 0)
            last_words(said, why, sizeof why);
        else
            snprintf(why, sizeof why, "%s", strerror(error));
        server_stop();
        say_remedy(python, error, why, remedy, sizeof remedy);
        failed(library.opener, library.unavailable,
               "%s does not start rknnlite's CPU reference: %s; %s", python, *why ? why : "it ended without a word", remedy);
    }
    close(said);
    return up;
}

void server_after_fork(void)
{
    pthread_mutex_init(&process_lock, NULL);
    forget();
}

void server_doubt(void)
{
    pthread_mutex_lock(&process_lock);
    doubted = true;
    pthread_mutex_unlock(&process_lock);
}

static bool ended(void)
{
    int patience = doubted ? DOUBT_LIMIT : 0; /* the sockets of one process do not end all at once */
    doubted = false;
    if (!ends(patience))
        return false;
    forget();
    return true;
}

int server_connect(uint64_t id)
{
    int ends[2], sock = -1;
    pthread_mutex_lock(&process_lock);
    bool up = (server > 0 && !ended()) || start();
    if (up && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        up = wire_send(control, &id, sizeof id, NULL, 0, &ends[1], 1);
        close(ends[1]);
        sock = high(ends[0]);
        if (!up) {
            close(sock);
            sock = -1;
            failed(library.opener, library.unavailable, "the process that computes has just ended; try again");
        }
    }
    if (up && sock < 0)
        failed(library.opener, library.unavailable, "no descriptor for a context: %s; %s", strerror(errno), MORE_FILES);
    pthread_mutex_unlock(&process_lock);
    return sock;
}
