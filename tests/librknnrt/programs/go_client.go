// go_client MODEL FOLDER: a model by path and from memory, in Go, several goroutines with a context each.
package main

/*
#include <stdlib.h>
#include "rknn_api.h"
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"
)

func check(call string, code C.int) error {
	if code != C.RKNN_SUCC {
		return fmt.Errorf("%s answered %d", call, code)
	}
	return nil
}

type model struct {
	context C.rknn_context
	in, out C.rknn_tensor_attr
}

func open(data []byte) (*model, error) {
	m := &model{}
	memory := C.CBytes(data)
	defer C.free(memory)
	if err := check("rknn_init", C.rknn_init(&m.context, memory, C.uint32_t(len(data)), 0, nil)); err != nil {
		return nil, err
	}
	size := C.uint32_t(unsafe.Sizeof(m.in))
	if err := check("rknn_query", C.rknn_query(m.context, C.RKNN_QUERY_INPUT_ATTR, unsafe.Pointer(&m.in), size)); err != nil {
		return nil, err
	}
	return m, check("rknn_query", C.rknn_query(m.context, C.RKNN_QUERY_OUTPUT_ATTR, unsafe.Pointer(&m.out), size))
}

func (m *model) infer(pixels []byte) ([]float32, error) {
	memory := C.CBytes(pixels)
	defer C.free(memory)
	input := C.rknn_input{buf: memory, size: C.uint32_t(len(pixels)), fmt: C.RKNN_TENSOR_NHWC}
	input._type = C.RKNN_TENSOR_UINT8
	if err := check("rknn_inputs_set", C.rknn_inputs_set(m.context, 1, &input)); err != nil {
		return nil, err
	}
	if err := check("rknn_run", C.rknn_run(m.context, nil)); err != nil {
		return nil, err
	}
	output := C.rknn_output{want_float: 1}
	if err := check("rknn_outputs_get", C.rknn_outputs_get(m.context, 1, &output, nil)); err != nil {
		return nil, err
	}
	values := make([]float32, output.size/4)
	copy(values, unsafe.Slice((*float32)(output.buf), len(values)))
	return values, check("rknn_outputs_release", C.rknn_outputs_release(m.context, 1, &output))
}

func work(data, pixels, golden []byte) error {
	m, err := open(data)
	if err != nil {
		return err
	}
	if int(m.in.n_elems) != len(pixels) {
		return fmt.Errorf("the input has %d elements, the picture %d", m.in.n_elems, len(pixels))
	}
	for i := 0; i < 5; i++ {
		values, err := m.infer(pixels)
		if err != nil {
			return err
		}
		var found bytes.Buffer
		if err := binary.Write(&found, binary.LittleEndian, values); err != nil {
			return err
		}
		if !bytes.Equal(found.Bytes(), golden) {
			return fmt.Errorf("other numbers in frame %d", i)
		}
	}
	return check("rknn_destroy", C.rknn_destroy(m.context))
}

func main() {
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return data
	}
	data := read(os.Args[1])
	pixels, golden := read(filepath.Join(os.Args[2], "in0.u8")), read(filepath.Join(os.Args[2], "out0.f32"))
	var group sync.WaitGroup
	results := make(chan error, 4)
	for i := 0; i < cap(results); i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			results <- work(data, pixels, golden)
		}()
	}
	group.Wait()
	close(results)
	for err := range results {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var none C.rknn_context
	if code := C.rknn_run(none, nil); code != C.RKNN_ERR_CTX_INVALID {
		fmt.Fprintln(os.Stderr, "a run without a context answered", code)
		os.Exit(1)
	}
}
