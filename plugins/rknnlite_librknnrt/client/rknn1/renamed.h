/* Included before every source of librknn_api.so: what librknnrt.so exports has other names in here, and is not exported. */
#ifndef RKNN1_RENAMED_H
#define RKNN1_RENAMED_H

#define PUBLIC
#define LIBRARY_NAME "librknn_api"
#define rknnlite_librknnrt_marker rknnlite_librknn1_marker

#define rknn_init later_init
#define rknn_init2 later_init2
#define rknn_destroy later_destroy
#define rknn_query later_query
#define rknn_inputs_set later_inputs_set
#define rknn_run later_run
#define rknn_outputs_get later_outputs_get
#define rknn_outputs_release later_outputs_release
#define rknn_create_mem later_create_mem
#define rknn_destroy_mem later_destroy_mem
#define rknn_set_io_mem later_set_io_mem
#define rknn_mem_sync later_mem_sync

#endif
