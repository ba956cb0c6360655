/* An operator for onnxruntime: a function of the sums of a convolution, stored in 8 bits, in one pass.
 *
 * Y = clip(rint(f(X * factor of the channel) / scale)) + zero. The functions are those of rknnlite_graph/unary_functions.py, step by
 * step: sums, products and quotients of float32, each rounded by itself (-ffp-contract=off), so that bits are the same everywhere.
 *
 * onnxruntime's C API is a table of functions whose places never change; those that are called are numbered below, by the order
 * of the fields of OrtApi. The library is loaded by SessionOptions.register_custom_ops_library.
 */
#include <stddef.h>
#include <stdint.h>

enum { NEEDED_API = 17 }; /* ParallelFor came with onnxruntime 1.17 */
enum {
    CREATE_DOMAIN = 26, DOMAIN_ADD = 27, ADD_DOMAIN = 28, MUTABLE_DATA = 51, DIMENSIONS_COUNT = 61, DIMENSIONS = 62,
    ELEMENT_COUNT = 64, TYPE_AND_SHAPE = 65, GET_INPUT = 90, GET_OUTPUT = 91, RELEASE_SHAPE = 99, PARALLEL_FOR = 274
};
enum { TYPE_FLOAT = 1, TYPE_UINT8 = 2 };

typedef void *const Api;
typedef struct { const Api *(*get_api)(uint32_t version); const char *(*get_version)(void); } ApiBase;
typedef void *Status; /* NULL: well done */
#define CALL(api, place, ...) ((Status(*)())(api)[place])(__VA_ARGS__)

typedef struct Operator {
    uint32_t version;
    void *(*create)(const struct Operator *, const Api *, const void *);
    const char *(*name)(const struct Operator *);
    const char *(*provider)(const struct Operator *);
    int (*input_type)(const struct Operator *, size_t);
    size_t (*inputs)(const struct Operator *);
    int (*output_type)(const struct Operator *, size_t);
    size_t (*outputs)(const struct Operator *);
    void (*compute)(void *, void *);
    void (*destroy)(void *);
    int (*input_kind)(const struct Operator *, size_t);
    int (*output_kind)(const struct Operator *, size_t);
    int (*memory)(const struct Operator *, size_t);
    int (*variadic[4])(const struct Operator *);
    void *create_with_status, *compute_with_status, *infer_shape;
    int (*first_version)(const struct Operator *);
    int (*last_version)(const struct Operator *);
    void *more[4];
} Operator;

/* -- functions ------------------------------------------------------------------------------------------- */

enum { BLOCK = 256 };
static const float logistic_over[] = {LOGISTIC_OVER}, logistic_under[] = {LOGISTIC_UNDER};
static const float normal_over[] = {NORMAL_OVER}, normal_under[] = {NORMAL_UNDER};
#define COUNT(array) ((int)(sizeof(array) / sizeof(float)))
#define INLINE static inline __attribute__((always_inline))

INLINE float polynomial(const float *c, int count, float square)
{
    float found = square + c[count - 1];
    for (int i = count - 2; i >= 0; i--)
        found = found * square + c[i];
    return found;
}

INLINE float between(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

INLINE float step(float x, float reach, float factor, const float *over, int overs, const float *under, int unders)
{
    float near = between(x, -reach, reach), square = near * near;
    return near * factor * polynomial(over, overs, square) / polynomial(under, unders, square) + 0.5f;
}

INLINE float sigmoid(float x)
{
    return step(x, LOGISTIC_REACH, LOGISTIC_FACTOR, logistic_over, COUNT(logistic_over), logistic_under, COUNT(logistic_under));
}

INLINE float silu(float x, float beta) { return x * sigmoid(x * beta); }
INLINE float hyperbolic_tangent(float x, float unused) { return sigmoid(x * 2.0f) * 2.0f - 1.0f; }
INLINE float plain_sigmoid(float x, float unused) { return sigmoid(x); }

INLINE float gelu(float x, float unused)
{
    return x * step(x, NORMAL_REACH, NORMAL_FACTOR, normal_over, COUNT(normal_over), normal_under, COUNT(normal_under));
}

INLINE float mish(float x, float unused)
{
    float rest = 1.0f - sigmoid(x), square = rest * rest;
    return x * (1.0f - square) / (square + 1.0f);
}

INLINE float elu(float x, float alpha)
{
    float part = sigmoid(between(x, -LOGISTIC_REACH, 0.0f));
    float below = (part * 2.0f - 1.0f) / (1.0f - part);
    return (x < 0.0f ? 0.0f : x) + below * alpha;
}

INLINE float hard_swish(float x, float unused) { return x * between(x / 6.0f + 0.5f, 0.0f, 1.0f); }

/* -- a block of sums ---------------------------------------------------------------------------------------- */

typedef struct {
    const float *x, *factor;
    uint8_t *y;
    size_t rows, across; /* rows of sums that lie side by side: planes, or, channels last, the channels of a position */
    size_t channels;     /* 0: channels last, each sum of a row has a factor */
    size_t at_a_time;
    int function;
    float parameter, scale, first, low, high, zero;
} Job;

static const float WHOLE = 12582912.0f; /* 1.5 * 2**23: what is added to it is rounded to a whole number */

#define ROW(name, function)                                                                                        \
    static void name(const Job *job, const float *x, const float *factor, int many, uint8_t *y, size_t count)     \
    {                                                                                                              \
        const float parameter = job->parameter, scale = job->scale, first = job->first, zero = job->zero;         \
        const float low = job->low, high = job->high;                                                              \
        float real[BLOCK];                                                                                         \
        for (size_t at = 0; at < count; at += BLOCK) {                                                             \
            int n = count - at < BLOCK ? (int)(count - at) : BLOCK;                                                \
            if (many)                                                                                              \
                for (int i = 0; i < n; i++)                                                                        \
                    real[i] = x[at + i] * factor[at + i];                                                          \
            else                                                                                                   \
                for (int i = 0; i < n; i++)                                                                        \
                    real[i] = x[at + i] * factor[0];                                                               \
            for (int i = 0; i < n; i++)                                                                            \
                real[i] = function(real[i], parameter) / scale;                                                    \
            for (int i = 0; i < n; i++) {                                                                          \
                float v = between(real[i], low - 1.0f, high + 1.0f);                                               \
                v = (v + first + WHOLE) - WHOLE - first;                                                           \
                y[at + i] = (uint8_t)(int32_t)(between(v, low, high) + zero);                                      \
            }                                                                                                      \
        }                                                                                                          \
    }

ROW(row_sigmoid, plain_sigmoid)
ROW(row_silu, silu)
ROW(row_tanh, hyperbolic_tangent)
ROW(row_gelu, gelu)
ROW(row_mish, mish)
ROW(row_elu, elu)
ROW(row_hard_swish, hard_swish)

typedef void Row(const Job *, const float *, const float *, int, uint8_t *, size_t);
static Row *const functions[] = {row_sigmoid, row_silu, row_tanh, row_gelu, row_mish, row_elu, row_hard_swish};

static void work(void *given, size_t task)
{
    const Job *job = given;
    Row *row = functions[job->function];
    size_t end = (task + 1) * job->at_a_time;
    for (size_t i = task * job->at_a_time; i < (end < job->rows ? end : job->rows); i++) {
        const float *factor = job->channels ? job->factor + i % job->channels : job->factor;
        row(job, job->x + i * job->across, factor, job->channels == 0, job->y + i * job->across, job->across);
    }
}

/* -- the operator ------------------------------------------------------------------------------------------- */

enum { SETTINGS = 9, TASK = 1 << 14 };
static const Api *api;

static void compute(void *kernel, void *context)
{
    const void *x, *factor, *settings;
    void *shape, *y, *data[4];
    size_t rank, count, channels;
    int64_t sizes[8];
    if (CALL(api, GET_INPUT, context, (size_t)0, &x) || CALL(api, GET_INPUT, context, (size_t)1, &factor)
        || CALL(api, GET_INPUT, context, (size_t)2, &settings) || CALL(api, TYPE_AND_SHAPE, factor, &shape))
        return;
    CALL(api, ELEMENT_COUNT, shape, &channels);
    ((void (*)(void *))api[RELEASE_SHAPE])(shape);
    if (CALL(api, TYPE_AND_SHAPE, x, &shape))
        return;
    CALL(api, DIMENSIONS_COUNT, shape, &rank);
    if (rank <= 8)
        CALL(api, DIMENSIONS, shape, sizes, rank);
    CALL(api, ELEMENT_COUNT, shape, &count);
    ((void (*)(void *))api[RELEASE_SHAPE])(shape);
    if (rank > 8 || count == 0 || channels == 0 || CALL(api, GET_OUTPUT, context, (size_t)0, sizes, rank, &y))
        return;
    const void *all[] = {x, factor, settings, y};
    for (int i = 0; i < 4; i++)
        if (CALL(api, MUTABLE_DATA, (void *)all[i], &data[i]))
            return;
    const float *s = data[2];
    size_t across = s[8] > 0 ? (size_t)s[8] : channels;
    Job job = {
        .x = data[0], .factor = data[1], .y = data[3], .rows = count / across, .across = across,
        .channels = s[8] > 0 ? channels : 0, .at_a_time = 1 + TASK / across, .function = (int)s[0], .parameter = s[1],
        .scale = s[2], .first = s[3], .low = s[4], .high = s[5], .zero = s[6],
    };
    size_t tasks = (job.rows + job.at_a_time - 1) / job.at_a_time;
    if (tasks < 2 || CALL(api, PARALLEL_FOR, context, work, tasks, (size_t)0, &job))
        for (size_t i = 0; i < tasks; i++)
            work(&job, i);
}

static void *create(const Operator *op, const Api *given, const void *info) { return (void *)op; }
static void destroy(void *kernel) {}
static const char *name(const Operator *op) { return "FunctionOfSums"; }
static const char *provider(const Operator *op) { return NULL; }
static int input_type(const Operator *op, size_t i) { return TYPE_FLOAT; }
static int output_type(const Operator *op, size_t i) { return TYPE_UINT8; }
static size_t three(const Operator *op) { return 3; }
static size_t one(const Operator *op) { return 1; }
static int plain(const Operator *op, size_t i) { return 0; }
static int yes(const Operator *op) { return 1; }
static int newest(const Operator *op) { return 0x7fffffff; }

static const Operator function_of_sums = {
    .version = NEEDED_API, .create = create, .name = name, .provider = provider, .input_type = input_type, .inputs = three,
    .output_type = output_type, .outputs = one, .compute = compute, .destroy = destroy, .input_kind = plain,
    .output_kind = plain, .memory = plain, .variadic = {yes, yes, yes, yes}, .first_version = yes, .last_version = newest,
};

__attribute__((visibility("default"))) Status RegisterCustomOps(void *options, const ApiBase *base)
{
    static void *domain;
    api = base->get_api(NEEDED_API);
    if (api == NULL)
        return NULL; /* the models that need the operator are refused */
    Status failed = domain ? NULL : CALL(api, CREATE_DOMAIN, "rknnlite.sums", &domain);
    static int added;
    if (!failed && !added)
        failed = CALL(api, DOMAIN_ADD, domain, &function_of_sums);
    added = 1;
    return failed ? failed : CALL(api, ADD_DOMAIN, options, domain);
}
