/* Mainline's kernel interface as C sees it, written down a second time: tests hold rknnlite_npu/kernel/rocket_abi.py against it. */
#ifndef RIG_ROCKET_ABI_H
#define RIG_ROCKET_ABI_H
#include <stdint.h>
#include <sys/ioctl.h>

struct CreateBo { uint32_t size, handle; uint64_t dma_address, offset; };
struct PrepBo { uint32_t handle, reserved; int64_t timeout_ns; };
struct FiniBo { uint32_t handle, reserved; };
struct TaskWords { uint32_t regcmd, regcmd_count; };
struct Job {
    uint64_t tasks, in_bo_handles, out_bo_handles; uint32_t task_count, task_struct_size, in_bo_handle_count, out_bo_handle_count;
    uint32_t flags, reserved;
};
struct Submit { uint64_t jobs; uint32_t job_count, job_struct_size; uint64_t reserved; };

#define CREATE_BO _IOWR('d', 0x40, struct CreateBo)
#define SUBMIT _IOW('d', 0x41, struct Submit)
#define PREP_BO _IOW('d', 0x42, struct PrepBo)
#define FINI_BO _IOW('d', 0x43, struct FiniBo)
#endif
