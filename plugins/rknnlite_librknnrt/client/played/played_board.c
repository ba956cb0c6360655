/* A board's files and machine name, for programs that look for a board before they start: preloaded by ``rknnlite exec --soc``.
 *
 * RKNNLITE_PLAYED_BOARD is MACHINE:FOLDER. uname() says MACHINE, and what is asked about the paths in `played` is answered from below
 * FOLDER, which played_board.py has made. All else is left alone: paths relative to a folder that is open, /proc/self/root/..., by
 * which rknnlite itself reads the files of this machine, and programs that are linked statically or call the kernel themselves.
 *
 * Functions get their names by assembler labels: headers give some of them other names, other types, or none.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif
#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char rknnlite_played_board[] = RKNNLITE_VERSION;

static const char *const played[] = {
    "/proc/device-tree", "/sys/firmware/devicetree", "/proc/cpuinfo", "/sys/class/devfreq", "/sys/kernel/debug/rknpu", "/dev/dri",
};

/* The folder, and what stands before it; NULL where nothing is played. */
static const char *folder_and(const char **machine)
{
    *machine = getenv("RKNNLITE_PLAYED_BOARD");
    const char *colon = *machine ? strchr(*machine, ':') : NULL;
    return colon && colon[1] == '/' ? colon + 1 : NULL;
}

/* The path without "//" and "/./", in `room`; false where it does not fit. */
static bool plain(const char *path, char *room, size_t size)
{
    size_t length = 0;
    while (*path) {
        if (path[0] == '/' && (path[1] == '/' || (path[1] == '.' && (path[2] == '/' || !path[2])))) {
            path += path[1] == '/' ? 1 : 2;
            continue;
        }
        if (length + 1 >= size)
            return false;
        room[length++] = *path++;
    }
    room[length] = '\0';
    return true;
}

static bool is_played(const char *path)
{
    for (size_t i = 0; i < sizeof played / sizeof *played; i++) {
        size_t length = strlen(played[i]);
        if (strncmp(path, played[i], length) == 0 && (!path[length] || path[length] == '/'))
            return true;
    }
    return false;
}

/* Where a program's path is answered from: itself, or a path in `room`. */
static const char *place(const char *path, char room[PATH_MAX])
{
    char asked[PATH_MAX];
    const char *machine, *folder;
    if (!path || path[0] != '/' || !plain(path, asked, sizeof asked) || !is_played(asked) || !(folder = folder_and(&machine)))
        return path;
    return snprintf(room, PATH_MAX, "%s%s", folder, asked) < PATH_MAX ? room : path;
}

/* A path below the folder becomes the one that the program knows; others stay. */
static char *as_asked(char *path)
{
    const char *machine, *folder = folder_and(&machine);
    size_t length = folder ? strlen(folder) : 0;
    if (length && strncmp(path, folder, length) == 0 && path[length] == '/')
        memmove(path, path + length, strlen(path + length) + 1);
    return path;
}

/* The function that comes after ours; where the C library has none the program is told so. */
#define REAL(type, name, parameters)                                                                                   \
    static type(*real) parameters;                                                                                     \
    if (!real)                                                                                                         \
        real = (type(*) parameters)dlsym(RTLD_NEXT, #name);

#define ANSWER(type, name, failed, parameters, arguments)                                                              \
    PUBLIC type played_##name parameters __asm__(#name);                                                               \
    type played_##name parameters                                                                                      \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        REAL(type, name, parameters)                                                                                   \
        if (!real) {                                                                                                   \
            errno = ENOSYS;                                                                                            \
            return failed;                                                                                             \
        }                                                                                                              \
        return real arguments;                                                                                         \
    }

#define OPENED(name, before, at)                                                                                       \
    PUBLIC int played_##name(before const char *path, int flags, ...) __asm__(#name);                                  \
    int played_##name(before const char *path, int flags, ...)                                                         \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        unsigned mode = 0;                                                                                             \
        REAL(int, name, (before const char *, int, ...))                                                               \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
            va_list more;                                                                                              \
            va_start(more, flags);                                                                                     \
            mode = va_arg(more, unsigned);                                                                             \
            va_end(more);                                                                                              \
        }                                                                                                              \
        if (!real) {                                                                                                   \
            errno = ENOSYS;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
        return real(at place(path, room), flags, mode);                                                                \
    }
#define NOTHING
#define FOLDER int folder,
#define IN_IT folder,

OPENED(open, NOTHING, NOTHING)
OPENED(open64, NOTHING, NOTHING)
OPENED(openat, FOLDER, IN_IT)
OPENED(openat64, FOLDER, IN_IT)
/* clang-format off */
ANSWER(int, __open_2, -1, (const char *path, int flags), (place(path, room), flags))
ANSWER(int, __open64_2, -1, (const char *path, int flags), (place(path, room), flags))
ANSWER(int, __openat_2, -1, (int in, const char *path, int flags), (in, place(path, room), flags))
ANSWER(int, __openat64_2, -1, (int in, const char *path, int flags), (in, place(path, room), flags))
ANSWER(void *, fopen, NULL, (const char *path, const char *mode), (place(path, room), mode))
ANSWER(void *, fopen64, NULL, (const char *path, const char *mode), (place(path, room), mode))
ANSWER(void *, freopen, NULL, (const char *path, const char *mode, void *file), (place(path, room), mode, file))
ANSWER(void *, freopen64, NULL, (const char *path, const char *mode, void *file), (place(path, room), mode, file))
ANSWER(void *, opendir, NULL, (const char *path), (place(path, room)))
ANSWER(int, scandir, -1, (const char *path, void *list, void *wanted, void *order), (place(path, room), list, wanted, order))
ANSWER(int, scandir64, -1, (const char *path, void *list, void *wanted, void *order), (place(path, room), list, wanted, order))
ANSWER(int, chdir, -1, (const char *path), (place(path, room)))
ANSWER(int, access, -1, (const char *path, int mode), (place(path, room), mode))
ANSWER(int, eaccess, -1, (const char *path, int mode), (place(path, room), mode))
ANSWER(int, euidaccess, -1, (const char *path, int mode), (place(path, room), mode))
ANSWER(int, faccessat, -1, (int in, const char *path, int mode, int flags), (in, place(path, room), mode, flags))
ANSWER(int, stat, -1, (const char *path, void *found), (place(path, room), found))
ANSWER(int, stat64, -1, (const char *path, void *found), (place(path, room), found))
ANSWER(int, lstat, -1, (const char *path, void *found), (place(path, room), found))
ANSWER(int, lstat64, -1, (const char *path, void *found), (place(path, room), found))
ANSWER(int, fstatat, -1, (int in, const char *path, void *found, int flags), (in, place(path, room), found, flags))
ANSWER(int, fstatat64, -1, (int in, const char *path, void *found, int flags), (in, place(path, room), found, flags))
ANSWER(int, __xstat, -1, (int form, const char *path, void *found), (form, place(path, room), found))
ANSWER(int, __xstat64, -1, (int form, const char *path, void *found), (form, place(path, room), found))
ANSWER(int, __lxstat, -1, (int form, const char *path, void *found), (form, place(path, room), found))
ANSWER(int, __lxstat64, -1, (int form, const char *path, void *found), (form, place(path, room), found))
ANSWER(int, __fxstatat, -1, (int form, int in, const char *path, void *found, int flags), (form, in, place(path, room), found, flags))
ANSWER(int, __fxstatat64, -1, (int form, int in, const char *path, void *found, int flags), (form, in, place(path, room), found, flags))
ANSWER(int, statx, -1, (int in, const char *path, int flags, unsigned mask, void *found), (in, place(path, room), flags, mask, found))
ANSWER(ssize_t, readlink, -1, (const char *path, char *text, size_t size), (place(path, room), text, size))
ANSWER(ssize_t, readlinkat, -1, (int in, const char *path, char *text, size_t size), (in, place(path, room), text, size))
ANSWER(ssize_t, getxattr, -1, (const char *path, const char *name, void *value, size_t size), (place(path, room), name, value, size))
ANSWER(ssize_t, lgetxattr, -1, (const char *path, const char *name, void *value, size_t size), (place(path, room), name, value, size))
ANSWER(ssize_t, listxattr, -1, (const char *path, char *list, size_t size), (place(path, room), list, size))
ANSWER(ssize_t, llistxattr, -1, (const char *path, char *list, size_t size), (place(path, room), list, size))
ANSWER(ssize_t, __readlink_chk, -1, (const char *path, char *text, size_t size, size_t most), (place(path, room), text, size, most))
/* clang-format on */

/* What follows answers with paths, or looks by functions of its own. */

#define PATH_OF(name, parameters, arguments)                                                                           \
    PUBLIC char *played_##name parameters __asm__(#name);                                                              \
    char *played_##name parameters                                                                                     \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        REAL(char *, name, parameters)                                                                                 \
        const char *at = place(path, room);                                                                            \
        char *answer = real arguments;                                                                                 \
        return answer && at != path ? as_asked(answer) : answer;                                                       \
    }
PATH_OF(realpath, (const char *path, char *found), (at, found))
PATH_OF(__realpath_chk, (const char *path, char *found, size_t most), (at, found, most))
PATH_OF(canonicalize_file_name, (const char *path), (at))

PUBLIC char *played_getcwd(char *text, size_t size) __asm__("getcwd");
char *played_getcwd(char *text, size_t size)
{
    REAL(char *, getcwd, (char *, size_t))
    char *answer = real(text, size);
    return answer ? as_asked(answer) : answer;
}

#define GLOB(name)                                                                                                     \
    PUBLIC int played_##name(const char *, int, int (*)(const char *, int), glob_t *) __asm__(#name);                  \
    int played_##name(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)                 \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        REAL(int, name, (const char *, int, int (*)(const char *, int), glob_t *))                                     \
        const char *at = place(pattern, room);                                                                         \
        size_t before = flags & GLOB_APPEND ? found->gl_pathc : 0, skipped = flags & GLOB_DOOFFS ? found->gl_offs : 0; \
        int code = real(at, flags, failed, found);                                                                     \
        for (size_t i = before; code == 0 && at != pattern && i < found->gl_pathc; i++)                                \
            as_asked(found->gl_pathv[skipped + i]);                                                                    \
        return code;                                                                                                   \
    }
GLOB(glob)
GLOB(glob64)

PUBLIC int played_uname(struct utsname *found) __asm__("uname");
int played_uname(struct utsname *found)
{
    const char *machine, *folder = folder_and(&machine);
    REAL(int, uname, (struct utsname *))
    int code = real(found);
    if (code == 0 && folder)
        snprintf(found->machine, sizeof found->machine, "%.*s", (int)(folder - 1 - machine), machine);
    return code;
}
