/* Pixels that are taken from elsewhere: rows and columns of x by their numbers, one of each or weighted sums of two.
 *
 * `bias` has the numbers of the rows for each row of y, low and high ones, then those of the columns; -1 stands for zeros. `factor`
 * has as many weights.
 */
#include "float_stage.h"

#define SIZE ((int64_t)sizeof(float))

static void pick(const struct op *op, const struct scene *scene, int64_t item, int64_t line)
{
    const int32_t *columns = op->bias + 2 * op->y.height;
    int64_t row = op->bias[line];
    for (int64_t i = 0; i < op->y.width; i++) {
        Q *y = pixel(scene, &op->y, item, line, i);
        if (row < 0 || columns[i] < 0)
            memset(y, 0, op->y.channels);
        else
            memcpy(y, pixel(scene, &op->x, item, row, columns[i]), op->y.channels);
    }
}

static void mix(const struct op *op, const struct scene *scene, int64_t item, int64_t line)
{
    int64_t height = op->y.height, width = op->y.width, room = room_of(&op->y) / SIZE;
    const int32_t *rows = op->bias, *columns = rows + 2 * height;
    const float *down = op->factor, *across = down + 2 * height;
    for (int64_t i = 0; i < width; i++) {
        float *y = (float *)pixel(scene, &op->y, item, line, i), weights[4];
        const float *from[4];
        for (int j = 0; j < 4; j++) {
            int64_t row = rows[j / 2 * height + line], column = columns[j % 2 * width + i];
            from[j] = float_pixel(scene, &op->x, item, row, column);
            weights[j] = across[j % 2 * width + i] * down[j / 2 * height + line];
        }
        for (int64_t c = 0; c < room; c += LANES) {
            vf sum = load_f(from[0] + c) * weights[0];
            UNROLL
            for (int j = 1; j < 4; j++)
                sum = sum + load_f(from[j] + c) * weights[j];
            store_some(y + c, rounded(sum), room - c);
        }
    }
}

void float_place(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    for (int64_t i = from; i < to; i++) {
        if (op->kind == FLOAT_PICK)
            pick(op, scene, i / op->y.height, i % op->y.height);
        else
            mix(op, scene, i / op->y.height, i % op->y.height);
    }
}
