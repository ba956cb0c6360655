/* Asynchronous mode of toolkits 1.x: outputs are those of the frame before. MODEL FOLDER with in0, in1 and out0, out1 (two frames). */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size, length[2];
    void *model = load(NULL, argv[1], &size);
    void *pictures[2] = {load(argv[2], "in0.u8", &length[0]), load(argv[2], "in1.u8", &length[1])};
    rknn_context ctx;
    OK(rknn_init(&ctx, model, (uint32_t)size, RKNN_FLAG_PRIOR_HIGH | RKNN_FLAG_ASYNC_MASK));
    uint64_t ids[3];
    for (int frame = 0; frame < 3; frame++) {
        rknn_input input = {.buf = pictures[frame % 2], .size = (uint32_t)length[frame % 2], .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
        OK(rknn_inputs_set(ctx, 1, &input));
        rknn_run_extend run;
        OK(rknn_run(ctx, &run));
        ids[frame] = run.frame_id;
        rknn_output output = {.want_float = 1};
        rknn_output_extend got;
        OK(rknn_outputs_get(ctx, 1, &output, &got));
        CHECK(run.frame_id == (uint64_t)frame);
        if (frame) {
            CHECK(got.frame_id == ids[frame - 1]);
            same(argv[2], frame % 2 ? "out0.f32" : "out1.f32", output.buf, output.size);
        }
        OK(rknn_outputs_release(ctx, 1, &output));
    }
    OK(rknn_destroy(ctx));
    free(model);
    free(pictures[0]);
    free(pictures[1]);
    return 0;
}
