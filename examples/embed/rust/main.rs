//! Runs a compiled model from Rust, without crates.
//!
//!   python examples/compile_onnx.py .      writes model.so, model.weights and model.h
//!   rustc -O examples/embed/rust/main.rs -Clink-arg=model.so -Clink-arg=-Wl,-rpath,. -o embed
//!   ./embed model.weights 3
//!
//! The model is f32[n, 8] to f32[n, 4]; the number is n. Types and functions are those of model.h.

use std::alloc::{alloc, dealloc, Layout};
use std::ffi::{c_char, c_void, CStr};
use std::{env, fs, process, ptr};

const ALIGNMENT: usize = 64; // CUVIL_ALIGNMENT
const ABI_VERSION: i32 = 2; // CUVIL_ABI_VERSION of the header that this was written for
const FEATURES: i64 = 8;

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: [i32; 2], // type 1: CPU; id
    ndim: i32,
    code: u8, // 2: float
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Status {
    code: i32,
    index: i32,
    axis: i32,
    reserved: i32,
    message: [c_char; 240],
}

extern "C" {
    fn cuvil_abi_version() -> i32;
    fn cuvil_create(
        weights: *const c_void, bytes: u64, pool: *mut c_void, model: *mut *mut c_void,
        status: *mut Status,
    ) -> i32;
    fn cuvil_destroy(model: *mut c_void);
    fn cuvil_workspace_size(
        model: *const c_void, inputs: *const *const DLTensor, count: i32, bytes: *mut u64,
        status: *mut Status,
    ) -> i32;
    fn cuvil_output_shape(
        model: *const c_void, inputs: *const *const DLTensor, count: i32, index: i32,
        shape: *mut i64, status: *mut Status,
    ) -> i32;
    fn cuvil_run(
        model: *const c_void, inputs: *const *const DLTensor, input_count: i32,
        outputs: *const *mut DLTensor, output_count: i32, workspace: *mut c_void,
        workspace_bytes: u64, status: *mut Status,
    ) -> i32;
}

/// Memory aligned as weights and workspaces have to be.
struct Aligned(*mut u8, Layout);

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).unwrap();
        Aligned(unsafe { alloc(layout) }, layout)
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        unsafe { dealloc(self.0, self.1) }
    }
}

struct Model {
    handle: *mut c_void,
    _weights: Aligned,
}

// The library is safe to call from several threads, each with a workspace of its own.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

fn call(what: impl FnOnce(*mut Status) -> i32) -> Result<(), String> {
    let mut status = Status { code: 0, index: -1, axis: -1, reserved: 0, message: [0; 240] };
    match what(&mut status) {
        0 => Ok(()),
        code => {
            let text = unsafe { CStr::from_ptr(status.message.as_ptr()) };
            Err(format!("{} (code {code})", text.to_string_lossy()))
        }
    }
}

fn matrix(data: *mut f32, shape: &mut [i64; 2]) -> DLTensor {
    DLTensor {
        data: data.cast(), device: [1, 0], ndim: 2, code: 2, bits: 32, lanes: 1,
        shape: shape.as_mut_ptr(), strides: ptr::null_mut(), byte_offset: 0,
    }
}

impl Model {
    fn open(path: &str) -> Result<Model, String> {
        if unsafe { cuvil_abi_version() } != ABI_VERSION {
            return Err("the library has another version of the interface".into());
        }
        let bytes = fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        let weights = Aligned::new(bytes.len());
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), weights.0, bytes.len()) };
        let (mut handle, size) = (ptr::null_mut(), bytes.len() as u64);
        call(|status| unsafe {
            cuvil_create(weights.0.cast(), size, ptr::null_mut(), &mut handle, status)
        })?;
        Ok(Model { handle, _weights: weights })
    }

    /// Rows of `columns` features each to rows of scores, and how many scores a row has.
    fn run(&self, x: &mut [f32], columns: i64) -> Result<(Vec<f32>, usize), String> {
        let mut x_shape = [x.len() as i64 / columns, columns];
        let input = matrix(x.as_mut_ptr(), &mut x_shape);
        let inputs: [*const DLTensor; 1] = [&input];
        let mut dims = [0i64; 16];
        let mut bytes = 0u64;
        call(|status| unsafe {
            cuvil_output_shape(self.handle, inputs.as_ptr(), 1, 0, dims.as_mut_ptr(), status)
        })?;
        call(|status| unsafe {
            cuvil_workspace_size(self.handle, inputs.as_ptr(), 1, &mut bytes, status)
        })?;
        let workspace = Aligned::new(bytes as usize);
        let mut y_shape = [dims[0], dims[1]];
        let mut y = vec![0f32; (dims[0] * dims[1]) as usize];
        let mut output = matrix(y.as_mut_ptr(), &mut y_shape);
        let outputs: [*mut DLTensor; 1] = [&mut output];
        call(|status| unsafe {
            cuvil_run(
                self.handle, inputs.as_ptr(), 1, outputs.as_ptr(), 1, workspace.0.cast(), bytes,
                status,
            )
        })?;
        Ok((y, dims[1] as usize))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { cuvil_destroy(self.handle) }
    }
}

fn main_with(path: &str, rows: i64) -> Result<(), String> {
    let model = Model::open(path)?;
    let mut x: Vec<f32> = (0..rows * FEATURES).map(|i| (i % 7) as f32 - 3.0).collect();
    let (y, columns) = model.run(&mut x, FEATURES)?;
    for row in y.chunks(columns) {
        println!("{}", row.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" "));
    }
    if let Err(why) = model.run(&mut x, FEATURES / 2) {
        println!("refused: {why}");
    }
    Ok(())
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let rows = words.get(2).and_then(|n| n.parse().ok());
    let (Some(path), Some(rows)) = (words.get(1), rows) else {
        eprintln!("usage: {} MODEL.weights N", words[0]);
        process::exit(2);
    };
    if let Err(why) = main_with(path, rows) {
        eprintln!("{why}");
        process::exit(1);
    }
}
