//! rust_client MODEL FOLDER: the calls declared by hand, in Rust, without any crate; threads with a context each.

use std::ffi::c_void;
use std::fs;
use std::os::raw::{c_char, c_int};
use std::ptr;

type Context = u64;

#[repr(C)]
struct TensorAttr {
    index: u32,
    n_dims: u32,
    dims: [u32; 16],
    name: [c_char; 256],
    n_elems: u32,
    size: u32,
    fmt: c_int,
    kind: c_int,
    qnt_type: c_int,
    fl: i8,
    zp: i32,
    scale: f32,
    w_stride: u32,
    size_with_stride: u32,
    pass_through: u8,
    h_stride: u32,
}

#[repr(C)]
struct Input {
    index: u32,
    buf: *mut c_void,
    size: u32,
    pass_through: u8,
    kind: c_int,
    fmt: c_int,
}

#[repr(C)]
struct Output {
    want_float: u8,
    is_prealloc: u8,
    index: u32,
    buf: *mut c_void,
    size: u32,
}

const INPUT_ATTR: c_int = 1;
const OUTPUT_ATTR: c_int = 2;
const UINT8: c_int = 3;
const NHWC: c_int = 1;
const CTX_INVALID: c_int = -7;

#[link(name = "rknnrt")]
extern "C" {
    fn rknn_init(context: *mut Context, model: *mut c_void, size: u32, flag: u32, extend: *mut c_void) -> c_int;
    fn rknn_destroy(context: Context) -> c_int;
    fn rknn_query(context: Context, command: c_int, info: *mut c_void, size: u32) -> c_int;
    fn rknn_inputs_set(context: Context, count: u32, inputs: *mut Input) -> c_int;
    fn rknn_run(context: Context, extend: *mut c_void) -> c_int;
    fn rknn_outputs_get(context: Context, count: u32, outputs: *mut Output, extend: *mut c_void) -> c_int;
    fn rknn_outputs_release(context: Context, count: u32, outputs: *mut Output) -> c_int;
}

fn ok(call: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{call} answered {code}")) }
}

struct Model {
    context: Context,
    input: TensorAttr,
    output: TensorAttr,
}

impl Model {
    fn open(data: &mut [u8]) -> Result<Model, String> {
        let mut context = 0;
        ok("rknn_init", unsafe {
            rknn_init(&mut context, data.as_mut_ptr().cast(), data.len() as u32, 0, ptr::null_mut())
        })?;
        Ok(Model { context, input: attr(context, INPUT_ATTR)?, output: attr(context, OUTPUT_ATTR)? })
    }

    fn infer(&self, pixels: &mut [u8]) -> Result<Vec<f32>, String> {
        let mut input = Input {
            index: 0, buf: pixels.as_mut_ptr().cast(), size: pixels.len() as u32, pass_through: 0, kind: UINT8, fmt: NHWC,
        };
        let mut values = vec![0f32; self.output.n_elems as usize];
        let mut output = Output {
            want_float: 1, is_prealloc: 1, index: 0, buf: values.as_mut_ptr().cast(), size: 4 * self.output.n_elems,
        };
        unsafe {
            ok("rknn_inputs_set", rknn_inputs_set(self.context, 1, &mut input))?;
            ok("rknn_run", rknn_run(self.context, ptr::null_mut()))?;
            ok("rknn_outputs_get", rknn_outputs_get(self.context, 1, &mut output, ptr::null_mut()))?;
            ok("rknn_outputs_release", rknn_outputs_release(self.context, 1, &mut output))?;
        }
        Ok(values)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { rknn_destroy(self.context) };
    }
}

fn attr(context: Context, command: c_int) -> Result<TensorAttr, String> {
    let mut attr: TensorAttr = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of::<TensorAttr>() as u32;
    assert_eq!(size, 376);
    ok("rknn_query", unsafe { rknn_query(context, command, (&mut attr as *mut TensorAttr).cast(), size) })?;
    Ok(attr)
}

fn work(path: String, folder: String) -> Result<(), String> {
    let mut data = fs::read(path).map_err(|error| error.to_string())?;
    let mut pixels = fs::read(format!("{folder}/in0.u8")).map_err(|error| error.to_string())?;
    let golden = fs::read(format!("{folder}/out0.f32")).map_err(|error| error.to_string())?;
    let model = Model::open(&mut data)?;
    drop(data);
    if model.input.n_elems as usize != pixels.len() {
        return Err(format!("the input has {} elements, the picture {}", model.input.n_elems, pixels.len()));
    }
    for frame in 0..5 {
        let found: Vec<u8> = model.infer(&mut pixels)?.iter().flat_map(|value| value.to_le_bytes()).collect();
        if found != golden {
            return Err(format!("other numbers in frame {frame}"));
        }
    }
    Ok(())
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let (path, folder) = (arguments.next().unwrap(), arguments.next().unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (path, folder) = (path.clone(), folder.clone());
            std::thread::spawn(move || work(path, folder))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap()?;
    }
    let stale = unsafe { rknn_run(0, ptr::null_mut()) };
    if stale == CTX_INVALID { Ok(()) } else { Err(format!("a run without a context answered {stale}")) }
}
