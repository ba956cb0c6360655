/* A network with dynamic shapes: each is chosen by its number, and its tensors are made for it. */
#include "check3.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    struct net net = {.context = opened(argv[1])};
    rknn3_shape_config config;
    OK(rknn3_query(net.context, RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG, &config, sizeof config));
    CHECK(config.n_shapes > 1 && config.n_shapes < 8);
    rknn3_shape_info infos[8];
    rknn3_tensor_attr in[8][1], out[8][1];
    memset(infos, 0, sizeof infos);
    for (uint32_t i = 0; i < config.n_shapes; i++) {
        infos[i].shape_id = (int32_t)i;
        infos[i].n_inputs = infos[i].n_outputs = 1;
        infos[i].input_attrs = in[i];
        infos[i].output_attrs = out[i];
    }
    OK(rknn3_query(net.context, RKNN3_QUERY_DYNAMIC_SHAPE_INFO, infos, config.n_shapes * sizeof *infos));
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < config.n_shapes; i++) {
            char prefix[16];
            snprintf(prefix, sizeof prefix, "%u.", i);
            OK(rknn3_set_shape(net.context, (int32_t)i));
            tensors(&net);
            CHECK(memcmp(net.in[0].attr.shape, in[i][0].shape, sizeof in[i][0].shape) == 0);
            CHECK(memcmp(net.out[0].attr.shape, out[i][0].shape, sizeof out[i][0].shape) == 0);
            run_net(&net, argv[2], prefix, round == 1);
            OK(rknn3_query(net.context, RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG, &config, sizeof config));
            CHECK(config.current_shape_id == (int32_t)i);
            give_back(&net);
        }
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_set_shape(net.context, (int32_t)config.n_shapes));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_set_shape(net.context, -1));
    OK(rknn3_destroy(net.context));
    return 0;
}
