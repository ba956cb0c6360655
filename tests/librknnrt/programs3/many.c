/* Contexts in eight threads, and a process that forks: the child opens its own. */
#include "check3.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static char **arguments;

static void *work(void *unused)
{
    (void)unused;
    struct net net = {.context = opened(arguments[1])};
    tensors(&net);
    for (int i = 0; i < 10; i++)
        run_net(&net, arguments[2], "", i % 3 == 0);
    give_back(&net);
    OK(rknn3_destroy(net.context));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    arguments = argv;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);

    struct net net = {.context = opened(argv[1])};
    tensors(&net);
    run_net(&net, argv[2], "", false);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CODE(RKNN3_ERR_CTX_INVALID, rknn3_run(net.context, &net.in[0].tensor, 1, &net.out[0].tensor, 1));
        work(NULL);
        _exit(7);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    run_net(&net, argv[2], "", false);
    give_back(&net);
    OK(rknn3_destroy(net.context));
    return 0;
}
