/* A network from its path and from memory: questions, runs, runs that do not wait, a duplicate, images, profiles. */
#include "check3.h"

static void questions(rknn3_context context)
{
    rknn3_sdk_version version;
    uint32_t cores = 0;
    rknn3_core_mem_size sizes[8];
    rknn3_dev_mem_info memory;
    rknn3_shape_config shapes;
    OK(rknn3_query(context, RKNN3_QUERY_SDK_VERSION, &version, sizeof version));
    CHECK(strncmp(version.api_version, "1.0.0", 5) == 0);
    OK(rknn3_query(context, RKNN3_QUERY_CORE_NUMBER, &cores, sizeof cores));
    CHECK(cores == 1);
    OK(rknn3_query(context, RKNN3_QUERY_CORE_MEM_SIZE, sizes, cores * sizeof *sizes));
    CHECK(sizes[0].weight_size > 0 && sizes[0].internal_size > 0);
    OK(rknn3_query(context, RKNN3_QUERY_DEVICE_MEM_INFO, &memory, sizeof memory));
    CHECK(memory.node_num == 1 && memory.sys_total > 0);
    OK(rknn3_query(context, RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG, &shapes, sizeof shapes));
    CHECK(shapes.n_shapes == 0 && shapes.current_shape_id == -1);
}

static void images(rknn3_context context)
{
    rknn3_im_mem from, to;
    OK(rknn3_im_mem_create(context, 5, 3, RKNN3_IM_FMT_RGB888, 0, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT, &from));
    OK(rknn3_im_mem_create(context, 5, 3, RKNN3_IM_FMT_BGR888, 0, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT, &to));
    unsigned char *a = (unsigned char *)from.data_mem->virt_addr, *b = (unsigned char *)to.data_mem->virt_addr;
    for (int i = 0; i < 45; i++)
        a[i] = (unsigned char)i;
    OK(rknn3_im_cvt_color(context, &from, &to));
    for (int i = 0; i < 45; i++)
        CHECK(b[i] == i / 3 * 3 + 2 - i % 3);
    OK(rknn3_im_mem_destroy(context, &from));
    OK(rknn3_im_mem_destroy(context, &to));
}

static rknn3_context from_memory(const char *path)
{
    rknn3_context context = 0;
    rknn3_init_extend extend;
    rknn3_config config;
    size_t size;
    void *data = load(NULL, path, &size);
    ZERO(extend);
    ZERO(config);
    extend.device_id = (char *)"cpu";
    config.run_core_mask = RKNN3_NPU_CORE_0;
    config.user_mem_internal = 1;
    OK(rknn3_init(&context, &extend));
    OK(rknn3_load_model_from_data(context, data, size, NULL, 0));
    free(data);
    OK(rknn3_model_init(context, &config));
    return context;
}

int main(int argc, char **argv)
{
    static rknn3_devices devices;
    CHECK(argc == 3);
    OK(rknn3_find_devices(&devices));
    CHECK(devices.n_devices == 1 && strcmp(devices.devices[0].type, "RK1820") == 0);

    struct net net = {.context = opened(argv[1])};
    questions(net.context);
    tensors(&net);
    for (int i = 0; i < 3; i++)
        run_net(&net, argv[2], "", i == 1);
    images(net.context);

    struct net twin = {.context = 0};
    OK(rknn3_dup_context(net.context, &twin.context));
    tensors(&twin);
    run_net(&twin, argv[2], "", false);
    give_back(&twin);
    OK(rknn3_destroy(twin.context));

    rknn3_tensor in[4], out[4];
    for (int i = 0; i < 4; i++) {
        in[i] = net.in[i].tensor;
        out[i] = net.out[i].tensor;
    }
    OK(rknn3_profile_ops(net.context, in, net.number.n_input, out, net.number.n_output, 1));
    OK(rknn3_profile_mem(net.context));
    OK(rknn3_dump_features(net.context, in, net.number.n_input, out, net.number.n_output, argv[2]));
    give_back(&net);
    OK(rknn3_destroy(net.context));

    struct net other = {.context = from_memory(argv[1])};
    tensors(&other);
    for (int i = 0; i < 4; i++) {
        in[i] = other.in[i].tensor;
        out[i] = other.out[i].tensor;
    }
    CODE(RKNN3_ERR_RUN_TASK_FAILED, rknn3_run(other.context, in, other.number.n_input, out, other.number.n_output));
    rknn3_core_mem_size size;
    OK(rknn3_query(other.context, RKNN3_QUERY_CORE_MEM_SIZE, &size, sizeof size));
    rknn3_tensor_mem *internal = rknn3_create_mem(other.context, size.internal_size, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT);
    OK(rknn3_set_internal_mem(other.context, &internal, 1));
    run_net(&other, argv[2], "", false);
    OK(rknn3_destroy(other.context));
    OK(rknn3_destroy_mem(other.context, internal)); /* memory may outlive its context */
    return 0;
}
