/* One work item per element. The offsets are in elements: a tensor need not begin at the start of its buffer. */
__kernel void dual_residual(__global const float *x, int x_at, __global const float *y, int y_at,
                            __global float *left, int left_at, __global float *right, int right_at, float alpha)
{
    const int i = get_global_id(0);
    left[left_at + i] = x[x_at + i] * alpha - y[y_at + i];
    right[right_at + i] = y[y_at + i] * alpha - x[x_at + i];
}
