/* contexts BATCH MASTER SLAVE FOLDER: several images at once, duplicates in threads, weights of another context. */
#include <pthread.h>

#include "check.h"

typedef struct {
    rknn_context context;
    const char *folder;
} Job;

static void *frames(void *argument)
{
    const Job *job = (const Job *)argument;
    for (int i = 0; i < 5; i++)
        frame(job->context, job->folder, "batch.u8", "batch.f32");
    return NULL;
}

static void batch(const char *path, const char *folder)
{
    enum { COPIES = 3 };
    rknn_context context = 0;
    OK(rknn_init(&context, (void *)path, 0, 0, NULL));
    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0), out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    CHECK(in.dims[0] == 4 && out.dims[0] == 4 && in.n_elems == 4 * in.dims[1] * in.dims[2] * in.dims[3]);
    OK(rknn_set_batch_core_num(context, 3));
    frame(context, folder, "batch.u8", "batch.f32");

    /* Duplicates have the weights in common and nothing else; they outlive the original. */
    Job jobs[COPIES];
    pthread_t threads[COPIES];
    for (int i = 0; i < COPIES; i++) {
        jobs[i].context = 0;
        jobs[i].folder = folder;
        OK(rknn_dup_context(&context, &jobs[i].context));
        CHECK(jobs[i].context && jobs[i].context != context);
        CHECK(!pthread_create(&threads[i], NULL, frames, &jobs[i]));
    }
    OK(rknn_destroy(context));
    for (int i = 0; i < COPIES; i++) {
        CHECK(!pthread_join(threads[i], NULL));
        OK(rknn_destroy(jobs[i].context));
    }
}

static void shared_weights(const char *master_path, const char *slave_path, const char *folder)
{
    rknn_context master = 0, slave = 0, nobody = 0;
    rknn_init_extend extend;
    memset(&extend, 0, sizeof extend);
    OK(rknn_init(&master, (void *)master_path, 0, 0, NULL));
    extend.ctx = master;
    OK(rknn_init(&slave, (void *)slave_path, 0, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend));
    frame(master, folder, "master.u8", "master.f32");
    frame(slave, folder, "slave.u8", "slave.f32");
    frame(master, folder, "master.u8", "master.f32");
    OK(rknn_destroy(slave));

    extend.ctx = 0;
    FAILS(rknn_init(&nobody, (void *)slave_path, 0, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend));
    FAILS(rknn_init(&nobody, (void *)slave_path, 0, RKNN_FLAG_SHARE_WEIGHT_MEM, NULL));
    OK(rknn_destroy(master));
    extend.ctx = master;
    FAILS(rknn_init(&nobody, (void *)slave_path, 0, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend));
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    batch(argv[1], argv[4]);
    shared_weights(argv[2], argv[3], argv[4]);
    return 0;
}
