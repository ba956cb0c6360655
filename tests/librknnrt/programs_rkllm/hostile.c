/* What programs do that they should not: ``hostile MODEL WHAT``. Every call answers -1 within a second, and the library goes on. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rkllm.h"

#define CHECK(holds)                                                                                          \
    do {                                                                                                      \
        if (!(holds)) {                                                                                       \
            fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                               \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

static LLMHandle current;
static int states[8], first;
static int (*in_callback)(void);

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static int told(RKLLMResult *result, void *userdata, LLMCallState state)
{
    (void)result;
    (void)userdata;
    states[state]++;
    if (first && state == RKLLM_RUN_NORMAL) {
        first = 0;
        return in_callback ? in_callback() : 0;
    }
    return 0;
}

static int open_model(LLMHandle *handle, const char *path, int most)
{
    RKLLMParam param = rkllm_createDefaultParam();
    param.model_path = path;
    param.top_k = 1;
    param.max_new_tokens = most;
    param.max_context_len = 512;
    return rkllm_init(handle, &param, told);
}

static int run(LLMHandle handle)
{
    RKLLMInput input;
    RKLLMInferParam infer;
    memset(&input, 0, sizeof input);
    memset(&infer, 0, sizeof infer);
    memset(states, 0, sizeof states);
    input.role = "user";
    input.input_type = RKLLM_INPUT_PROMPT;
    input.prompt_input = "What is 12 + 30?";
    return rkllm_run(handle, &input, &infer, NULL);
}

/* The server's number, of which only the library knows: the newest process that has the variable MARK. */
static pid_t server(void)
{
    char command[256], text[32] = "";
    snprintf(command, sizeof command, "grep -lz 'MARK=%s' /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | grep -vx %d | sort -n",
             getenv("MARK"), (int)getpid());
    FILE *out = popen(command, "r");
    pid_t found = 0;
    while (fgets(text, sizeof text, out)) {
        char name[64], line[4096] = "";
        snprintf(name, sizeof name, "/proc/%d/cmdline", atoi(text));
        FILE *file = fopen(name, "r");
        size_t size = file ? fread(line, 1, sizeof line - 1, file) : 0;
        for (size_t i = 0; i < size; i++)
            line[i] = line[i] ? line[i] : ' ';
        if (strstr(line, "rknnlite_librknnrt.server"))
            found = atoi(text);
        if (file)
            fclose(file);
    }
    pclose(out);
    return found;
}

static int kill_server(void)
{
    pid_t pid = server();
    CHECK(pid > 0 && kill(pid, SIGKILL) == 0);
    return 0;
}

static int destroy_now(void)
{
    CHECK(rkllm_destroy(current) == -1);
    return 0;
}

static int pause_now(void)
{
    return 1;
}

static void killed(const char *path)
{
    CHECK(open_model(&current, path, 400) == 0);
    first = 1;
    in_callback = kill_server;
    double began = now();
    CHECK(run(current) == -1 && states[RKLLM_RUN_ERROR] == 1 && now() - began < 3);
    CHECK(run(current) == -1);
    CHECK(rkllm_clear_kv_cache(current, 0, NULL, NULL) == -1);
    CHECK(rkllm_destroy(current) == 0);
    CHECK(open_model(&current, path, 24) == 0 && run(current) == 0 && states[RKLLM_RUN_FINISH] == 1);
    CHECK(rkllm_destroy(current) == 0);
}

static void forked(const char *path)
{
    int status = 0;
    CHECK(open_model(&current, path, 24) == 0 && run(current) == 0);
    pid_t child = fork();
    if (!child) {
        LLMHandle own;
        if (run(current) != -1 || rkllm_destroy(current) != -1)
            _exit(1);
        if (open_model(&own, path, 24) != 0 || run(own) != 0 || states[RKLLM_RUN_FINISH] != 1)
            _exit(2);
        _exit(rkllm_destroy(own));
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(run(current) == 0 && states[RKLLM_RUN_FINISH] == 1 && rkllm_destroy(current) == 0);
}

static void several(const char *path)
{
    LLMHandle handles[4];
    for (int i = 0; i < 4; i++)
        CHECK(open_model(&handles[i], path, 24) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(run(handles[i]) == 0 && states[RKLLM_RUN_FINISH] == 1);
    CHECK(rkllm_destroy(handles[1]) == 0 && run(handles[1]) == -1 && run(handles[2]) == 0);
    CHECK(rkllm_destroy(handles[0]) == 0 && rkllm_destroy(handles[2]) == 0 && rkllm_destroy(handles[3]) == 0);
}

static void inside(const char *path)
{
    CHECK(open_model(&current, path, 400) == 0);
    first = 1;
    in_callback = destroy_now;
    CHECK(run(current) == 0 && states[RKLLM_RUN_FINISH] == 1 && states[RKLLM_RUN_NORMAL] == 1);
    in_callback = NULL;
    CHECK(run(current) == 0 && rkllm_destroy(current) == 0);
    CHECK(open_model(&current, path, 24) == 0);
    first = 1;
    in_callback = pause_now;
    CHECK(run(current) == 0 && states[RKLLM_RUN_FINISH] == 0);
    CHECK(rkllm_destroy(current) == 0); /* in a pause */
}

static void *destroy_other(void *given)
{
    usleep(20000);
    CHECK(rkllm_destroy(given) == 0);
    return NULL;
}

static int slow(void)
{
    usleep(50000);
    return 0;
}

static void while_it_runs(const char *path)
{
    pthread_t thread;
    CHECK(open_model(&current, path, 400) == 0);
    first = 1;
    in_callback = slow;
    CHECK(pthread_create(&thread, NULL, destroy_other, current) == 0);
    double began = now();
    CHECK(run(current) == 0 && now() - began < 2);
    pthread_join(thread, NULL);
    CHECK(run(current) == -1);
}

/* A run in a thread of the library: the model goes, or the server does, while it is under way. */
static void behind_its_back(const char *path)
{
    RKLLMInput input;
    RKLLMInferParam infer;
    memset(&input, 0, sizeof input);
    memset(&infer, 0, sizeof infer);
    input.input_type = RKLLM_INPUT_PROMPT;
    for (int i = 0; i < 6; i++) {
        char prompt[] = "What is 12 + 30?"; /* gone when the run goes on */
        input.prompt_input = prompt;
        CHECK(open_model(&current, path, 400) == 0);
        CHECK(rkllm_run_async(current, &input, &infer, NULL) == 0);
        memset(prompt, 'x', sizeof prompt - 1);
        usleep(i * 4000);
        if (i == 5)
            kill_server();
        double began = now();
        CHECK(rkllm_destroy(current) == 0 && now() - began < 2);
    }
    CHECK(open_model(&current, path, 24) == 0 && run(current) == 0 && rkllm_destroy(current) == 0);
}

static void nonsense(const char *path)
{
    RKLLMInput input;
    RKLLMInferParam infer;
    RKLLMParam param = rkllm_createDefaultParam();
    memset(&input, 0, sizeof input);
    memset(&infer, 0, sizeof infer);
    CHECK(rkllm_init(NULL, &param, told) == -1 && rkllm_init(&current, NULL, told) == -1);
    CHECK(rkllm_init(&current, &param, told) == -1 && rkllm_init(&current, &param, NULL) == -1 && current == NULL);
    CHECK(run(NULL) == -1 && run(&param) == -1 && rkllm_destroy(NULL) == -1 && rkllm_is_running(NULL) == -1);
    CHECK(rkllm_abort(NULL) == -1 && rkllm_clear_kv_cache(NULL, 0, NULL, NULL) == -1);
    CHECK(rkllm_get_kv_cache_size(NULL, NULL) == -1 && rkllm_set_chat_template(NULL, NULL, NULL, NULL) == -1);
    CHECK(rkllm_load_lora(NULL, NULL) == -1 && rkllm_load_prompt_cache(NULL, NULL) == -1 && rkllm_release_prompt_cache(NULL) == -1);
    CHECK(rkllm_set_function_tools(NULL, NULL, NULL, NULL) == -1 && rkllm_set_cross_attn_params(NULL, NULL) == -1);
    CHECK(open_model(&current, path, 24) == 0);
    CHECK(rkllm_run(current, NULL, &infer, NULL) == -1 && rkllm_run(current, &input, NULL, NULL) == -1);
    CHECK(rkllm_run(current, &input, &infer, NULL) == -1); /* a prompt that is NULL */
    input.input_type = (RKLLMInputType)77;
    CHECK(rkllm_run(current, &input, &infer, NULL) == -1);
    input.input_type = RKLLM_INPUT_EMBED;
    input.embed_input.embed = (float *)&input;
    input.embed_input.n_tokens = (size_t)-1;
    CHECK(rkllm_run(current, &input, &infer, NULL) == -1);
    input.input_type = RKLLM_INPUT_TOKEN;
    input.token_input.n_tokens = (size_t)1 << 62;
    CHECK(rkllm_run(current, &input, &infer, NULL) == -1);
    input.input_type = RKLLM_INPUT_MULTIMODAL;
    input.multimodal_input = (RKLLMMultiModalInput){"<image>", (float *)&input, (size_t)1 << 40, (size_t)1 << 40, 0, 0};
    CHECK(rkllm_run(current, &input, &infer, NULL) == -1);
    CHECK(rkllm_get_kv_cache_size(current, NULL) == -1 && rkllm_load_prompt_cache(current, "/dev/null") == -1);
    CHECK(rkllm_load_prompt_cache(current, "/") == -1 && rkllm_set_function_tools(current, NULL, "{", NULL) == -1);
    CHECK(run(current) == 0 && states[RKLLM_RUN_FINISH] == 1 && rkllm_destroy(current) == 0);
}

static long resident(void)
{
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * 4;
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void again_and_again(const char *path)
{
    int before = 0;
    long began = 0;
    for (int i = 0; i < 30; i++) {
        CHECK(open_model(&current, path, 8) == 0 && run(current) == 0 && rkllm_destroy(current) == 0);
        if (i == 4) {
            before = descriptors();
            began = resident();
        }
    }
    CHECK(descriptors() == before && resident() - began < 1024);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(const char *path);
    } all[] = {{"killed", killed}, {"forked", forked}, {"several", several}, {"inside", inside},
               {"while_it_runs", while_it_runs}, {"behind_its_back", behind_its_back}, {"nonsense", nonsense}, {"again_and_again", again_and_again}};
    for (size_t i = 0; argc > 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[2], all[i].name) == 0) {
            all[i].call(argv[1]);
            return 0;
        }
    return 2;
}
