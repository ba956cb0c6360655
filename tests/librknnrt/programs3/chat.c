/* The chat server in a program: started with a file of parameters, or with text; stopped by its callback. */
#include "check3.h"

#include "rkllm3_server.h"

static int inited, exited;

static void heard(void *userdata, ServerStatus status)
{
    CHECK(userdata == &inited);
    if (status == SERVER_MODEL_INITED) {
        inited++;
        puts("ready");
        fflush(stdout);
        char line[16];
        CHECK(fgets(line, sizeof line, stdin)); /* whoever started this has asked something */
        OK(stop_server());
    } else {
        CHECK(status == SERVER_EXITED);
        exited++;
    }
}

int main(int argc, char **argv)
{
    StatusCallback callback = {heard, &inited};
    CHECK(argc == 2);
    OK(stop_server()); /* none runs, which is no fault */
    CODE(RKNN3_ERR_ARGUMENT_INVALID, start_server(NULL, &callback));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, start_server("/nowhere.json", NULL));
    OK(start_server(argv[1], &callback));
    CHECK(inited == 1 && exited == 1);
    return 0;
}
