// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> ()

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.concat"(%arg0) {axis = 0 : i64} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> ()

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[3, 3] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0>} : (!cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[3, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3, 3] x f32>) -> ()
// REFUSED dimensions change place

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[5] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = array<i64: 5>, start = array<i64: 4>, step = array<i64: -1>} : (!cuvil.tensor<[5] x f32>) -> !cuvil.tensor<[5] x f32>
    "func.return"(%0) : (!cuvil.tensor<[5] x f32>) -> ()
// REFUSED it starts elsewhere or steps

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: -1>, lo = array<i64: 1>} : (!cuvil.tensor<[5] x f32>) -> !cuvil.tensor<[5] x f32>
    "func.return"(%0) : (!cuvil.tensor<[5] x f32>) -> ()
// REFUSED it shifts

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[2, 3] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = array<i64: 3, 2>} : (!cuvil.tensor<[2, 3] x f32>) -> !cuvil.tensor<[3, 2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3, 2] x f32>) -> ()
// REFUSED the type changes

// RULE drop-identity
  ^bb0(%arg0: !cuvil.tensor<[2, 3] x f32>):
    %0 = "cuvil.concat"(%arg0, %arg0) {axis = 0 : i64} : (!cuvil.tensor<[2, 3] x f32>, !cuvil.tensor<[2, 3] x f32>) -> !cuvil.tensor<[4, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[4, 3] x f32>) -> ()
// REFUSED it joins several values

// RULE merge-reshapes
  ^bb0(%arg0: !cuvil.tensor<[n, 6] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[6 * n]>} : (!cuvil.tensor<[n, 6] x f32>) -> !cuvil.tensor<[6 * n] x f32>
    %1 = "cuvil.reshape"(%0) {shape = #cuvil.dims<[2, 3 * n]>} : (!cuvil.tensor<[6 * n] x f32>) -> !cuvil.tensor<[2, 3 * n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, 3 * n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 6] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[2, 3 * n]>} : (!cuvil.tensor<[n, 6] x f32>) -> !cuvil.tensor<[2, 3 * n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, 3 * n] x f32>) -> ()

// RULE merge-reshapes
  ^bb0(%arg0: !cuvil.tensor<[2, 3] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = array<i64: 6>} : (!cuvil.tensor<[2, 3] x f32>) -> !cuvil.tensor<[6] x f32>
    "func.return"(%0) : (!cuvil.tensor<[6] x f32>) -> ()
// REFUSED the operand is no reshape

// RULE merge-transposes
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 4] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 2, 0>} : (!cuvil.tensor<[n, 3, 4] x f32>) -> !cuvil.tensor<[3, 4, n] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[3, 4, n] x f32>) -> !cuvil.tensor<[3, n, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[3, n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 4] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0, 2>} : (!cuvil.tensor<[n, 3, 4] x f32>) -> !cuvil.tensor<[3, n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3, n, 4] x f32>) -> ()

// RULE merge-transposes
  ^bb0(%arg0: !cuvil.tensor<[2, 3] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0>} : (!cuvil.tensor<[2, 3] x f32>) -> !cuvil.tensor<[3, 2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3, 2] x f32>) -> ()
// REFUSED the operand is no transpose

// RULE merge-broadcasts
  ^bb0(%arg0: !cuvil.tensor<[1, 3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = array<i64: 4, 3>} : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[4, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 4, 3]>} : (!cuvil.tensor<[4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 4, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[1, 3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = #cuvil.dims<[n, 4, 3]>} : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4, 3] x f32>) -> ()

// RULE merge-broadcasts
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = array<i64: 2, 3>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[2, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, 3] x f32>) -> ()
// REFUSED the operand is no broadcast

// RULE merge-slices
  ^bb0(%arg0: !cuvil.tensor<[10] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = array<i64: 4>, start = array<i64: 8>, step = array<i64: -2>} : (!cuvil.tensor<[10] x f32>) -> !cuvil.tensor<[4] x f32>
    %1 = "cuvil.slice"(%0) {size = array<i64: 2>, start = array<i64: 1>, step = array<i64: 2>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[10] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = array<i64: 2>, start = array<i64: 6>, step = array<i64: -4>} : (!cuvil.tensor<[10] x f32>) -> !cuvil.tensor<[2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2] x f32>) -> ()

// RULE merge-slices
  ^bb0(%arg0: !cuvil.tensor<[10] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = array<i64: 2>, start = array<i64: 1>, step = array<i64: 2>} : (!cuvil.tensor<[10] x f32>) -> !cuvil.tensor<[2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2] x f32>) -> ()
// REFUSED the operand is no slice

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[4] x f16>) -> !cuvil.tensor<[4] x f32>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[4] x i32>
    "func.return"(%1) : (!cuvil.tensor<[4] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[4] x f16>) -> !cuvil.tensor<[4] x i32>
    "func.return"(%0) : (!cuvil.tensor<[4] x i32>) -> ()

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x i32>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i64>} : (!cuvil.tensor<[4] x i32>) -> !cuvil.tensor<[4] x i64>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[4] x i64>) -> !cuvil.tensor<[4] x i32>
    "func.return"(%1) : (!cuvil.tensor<[4] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[4] x i32>):
    "func.return"(%arg0) : (!cuvil.tensor<[4] x i32>) -> ()

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f16>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[4] x f16>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[4] x f16>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[4] x f32>) -> ()
// REFUSED the operand is no cast | the inner cast may lose something

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<bf16>} : (!cuvil.tensor<[4] x f16>) -> !cuvil.tensor<[4] x bf16>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[4] x bf16>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[4] x f32>) -> ()
// REFUSED the operand is no cast | the inner cast may lose something

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x i32>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<u32>} : (!cuvil.tensor<[4] x i32>) -> !cuvil.tensor<[4] x u32>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<i64>} : (!cuvil.tensor<[4] x u32>) -> !cuvil.tensor<[4] x i64>
    "func.return"(%1) : (!cuvil.tensor<[4] x i64>) -> ()
// REFUSED the operand is no cast | the inner cast may lose something

// RULE merge-casts
  ^bb0(%arg0: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f64>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[4] x f64>
    "func.return"(%0) : (!cuvil.tensor<[4] x f64>) -> ()
// REFUSED the operand is no cast

// RULE transpose-of-units
  ^bb0(%arg0: !cuvil.tensor<[n, 1, 4] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0, 2>} : (!cuvil.tensor<[n, 1, 4] x f32>) -> !cuvil.tensor<[1, n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[1, n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 1, 4] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[1, n, 4]>} : (!cuvil.tensor<[n, 1, 4] x f32>) -> !cuvil.tensor<[1, n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[1, n, 4] x f32>) -> ()

// RULE transpose-of-units
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0>} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[4, n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[4, n] x f32>) -> ()
// REFUSED a dimension larger than 1 changes place

// RULE reshape-into-broadcast
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = array<i64: 1, 1, 3>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[1, 1, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[2, n, 3]>} : (!cuvil.tensor<[1, 1, 3] x f32>) -> !cuvil.tensor<[2, n, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, n, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = #cuvil.dims<[2, n, 3]>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[2, n, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, n, 3] x f32>) -> ()

// RULE reshape-into-broadcast
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = array<i64: 3, 1>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[3, 1] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = array<i64: 3, 4>} : (!cuvil.tensor<[3, 1] x f32>) -> !cuvil.tensor<[3, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[3, 4] x f32>) -> ()
// REFUSED the reshape does more than add leading dimensions of size 1

// RULE reshape-into-broadcast
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = array<i64: 4, 3>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[4, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[4, 3] x f32>) -> ()
// REFUSED the operand is no reshape

// RULE gather-of-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [-1]>} : () -> !cuvil.tensor<[] x i64>
    %1 = "cuvil.gather"(%arg0, %0) {axis = 1 : i64} : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = #cuvil.dims<[n, 1]>, start = array<i64: 0, 3>, step = array<i64: 1, 1>} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %1 = "cuvil.reshape"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE gather-of-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [0]>} : () -> !cuvil.tensor<[] x i64>
    %1 = "cuvil.gather"(%arg0, %0) {axis = 0 : i64} : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[4] x f32>) -> ()
// REFUSED the index is not proved to be inside

// RULE gather-of-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [4]>} : () -> !cuvil.tensor<[] x i64>
    %1 = "cuvil.gather"(%arg0, %0) {axis = 1 : i64} : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the index is not proved to be inside

// RULE gather-of-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>, %arg1: !cuvil.tensor<[] x i64>):
    %0 = "cuvil.gather"(%arg0, %arg1) {axis = 1 : i64} : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the index is no constant scalar

// RULE gather-of-range
  ^bb0(%arg0: !cuvil.tensor<[9, 4] x f32>):
    %0 = "cuvil.iota"() {axis = 0 : i64, dtype = #cuvil.dtype<i64>, shape = array<i64: 5>} : () -> !cuvil.tensor<[5] x i64>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [1] x i64, [2]>} : () -> !cuvil.tensor<[1] x i64>
    %2 = "cuvil.broadcast"(%1) {shape = array<i64: 5>} : (!cuvil.tensor<[1] x i64>) -> !cuvil.tensor<[5] x i64>
    %3 = "cuvil.add"(%0, %2) : (!cuvil.tensor<[5] x i64>, !cuvil.tensor<[5] x i64>) -> !cuvil.tensor<[5] x i64>
    %4 = "cuvil.reshape"(%3) {shape = array<i64: 1, 5>} : (!cuvil.tensor<[5] x i64>) -> !cuvil.tensor<[1, 5] x i64>
    %5 = "cuvil.gather"(%arg0, %4) {axis = 0 : i64, from_end = false} : (!cuvil.tensor<[9, 4] x f32>, !cuvil.tensor<[1, 5] x i64>) -> !cuvil.tensor<[1, 5, 4] x f32>
    "func.return"(%5) : (!cuvil.tensor<[1, 5, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[9, 4] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = array<i64: 5, 4>, start = array<i64: 2, 0>, step = array<i64: 1, 1>} : (!cuvil.tensor<[9, 4] x f32>) -> !cuvil.tensor<[5, 4] x f32>
    %1 = "cuvil.reshape"(%0) {shape = array<i64: 1, 5, 4>} : (!cuvil.tensor<[5, 4] x f32>) -> !cuvil.tensor<[1, 5, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[1, 5, 4] x f32>) -> ()

// RULE gather-of-range
  ^bb0(%arg0: !cuvil.tensor<[9, 4] x f32>):
    %0 = "cuvil.iota"() {axis = 0 : i64, dtype = #cuvil.dtype<i64>, shape = #cuvil.dims<[n]>} : () -> !cuvil.tensor<[n] x i64>
    %1 = "cuvil.gather"(%arg0, %0) {axis = 0 : i64, from_end = false} : (!cuvil.tensor<[9, 4] x f32>, !cuvil.tensor<[n] x i64>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// REFUSED the range is not proved to be inside

// RULE gather-of-range
  ^bb0(%arg0: !cuvil.tensor<[9, 4] x f32>):
    %0 = "cuvil.iota"() {axis = 0 : i64, dtype = #cuvil.dtype<i8>, shape = array<i64: 5>} : () -> !cuvil.tensor<[5] x i8>
    %1 = "cuvil.gather"(%arg0, %0) {axis = 0 : i64, from_end = false} : (!cuvil.tensor<[9, 4] x f32>, !cuvil.tensor<[5] x i8>) -> !cuvil.tensor<[5, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[5, 4] x f32>) -> ()
// REFUSED the index is no range of numbers
