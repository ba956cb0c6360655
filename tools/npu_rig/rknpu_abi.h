/* The vendor's kernel interface as C sees it, written down a second time: tests hold rknnlite_npu/rknpu_abi.py against it. */
#ifndef RIG_RKNPU_ABI_H
#define RIG_RKNPU_ABI_H
#include <stdint.h>
#include <sys/ioctl.h>

struct UserAction { uint32_t flags, value; };
struct MemCreateOld { uint32_t handle, flags; uint64_t size, obj_addr, dma_addr, sram_size; };
struct MemCreate { uint32_t handle, flags; uint64_t size, obj_addr, dma_addr, sram_size; int32_t iommu_domain_id; uint32_t core_mask; };
struct MemMap { uint32_t handle, reserved; uint64_t offset; };
struct MemDestroy { uint32_t handle, reserved; uint64_t obj_addr; };
struct MemSync { uint32_t flags, reserved; uint64_t obj_addr, offset, size; };
struct TaskRange { uint32_t start, number; };
struct SubmitOld {
    uint32_t flags, timeout, task_start, task_number, task_counter; int32_t priority; uint64_t task_obj_addr, regcfg_obj_addr, task_base_addr,
    user_data; uint32_t core_mask; int32_t fence_fd; struct TaskRange subcore_task[5];
};
struct Submit {
    uint32_t flags, timeout, task_start, task_number, task_counter; int32_t priority; uint64_t task_obj_addr; uint32_t iommu_domain_id, reserved;
    uint64_t task_base_addr; int64_t hw_elapse_time; uint32_t core_mask; int32_t fence_fd; struct TaskRange subcore_task[5];
};

#define RKNPU(number, type) _IOWR('d', 0x40 + (number), struct type)
#define RKNPU_ACTION RKNPU(0, UserAction)
#define RKNPU_SUBMIT RKNPU(1, Submit)
#define RKNPU_MEM_CREATE RKNPU(2, MemCreate)
#define RKNPU_MEM_MAP RKNPU(3, MemMap)
#define RKNPU_MEM_DESTROY RKNPU(4, MemDestroy)
#define RKNPU_MEM_SYNC RKNPU(5, MemSync)
#endif
