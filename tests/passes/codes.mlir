// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x u8>) -> !cuvil.tensor<[n, 2] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [3]>} : () -> !cuvil.tensor<[] x i32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 2] x i32>, !cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %4 = "cuvil.cast"(%3) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[2, 2] x i32>
    %10 = "cuvil.cast"(%9) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.25, 0.5]>} : () -> !cuvil.tensor<[2] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %13 = "cuvil.mul"(%10, %12) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %14 = "cuvil.matmul"(%7, %13) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%14) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x u8>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %1 = "cuvil.matmul"(%arg0, %0) {out = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x u8>, !cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[n, 2] x i32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x i32, [12, 6]>} : () -> !cuvil.tensor<[2] x i32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %4 = "cuvil.sub"(%1, %3) : (!cuvil.tensor<[n, 2] x i32>, !cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %5 = "cuvil.cast"(%4) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %6 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.125, 0.25]>} : () -> !cuvil.tensor<[2] x f32>
    %7 = "cuvil.broadcast"(%6) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %8 = "cuvil.mul"(%5, %7) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%8) : (!cuvil.tensor<[n, 2] x f32>) -> ()

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x i8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x i8>) -> !cuvil.tensor<[n, 2] x i32>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x u8, [1, 54, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x u8>
    %6 = "cuvil.cast"(%5) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x u8>) -> !cuvil.tensor<[2, 2] x i32>
    %7 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x i32, [1, 2]>} : () -> !cuvil.tensor<[2, 1] x i32>
    %8 = "cuvil.broadcast"(%7) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[2, 1] x i32>) -> !cuvil.tensor<[2, 2] x i32>
    %9 = "cuvil.sub"(%6, %8) : (!cuvil.tensor<[2, 2] x i32>, !cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x i32>
    %10 = "cuvil.cast"(%9) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [0.25, 0.5]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %13 = "cuvil.mul"(%10, %12) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %14 = "cuvil.matmul"(%4, %13) {trans_b = true} : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%14) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x i8>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [0, 1, 53, 2]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %1 = "cuvil.matmul"(%arg0, %0) {out = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x i8>, !cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[n, 2] x i32>
    %2 = "cuvil.cast"(%1) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.125, 0.25]>} : () -> !cuvil.tensor<[2] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.mul"(%2, %4) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 2] x f32>) -> ()

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2, 5] x u8>) -> !cuvil.tensor<[n, 2, 5] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [3]>} : () -> !cuvil.tensor<[] x i32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n, 2, 5] x i32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 2, 5] x i32>, !cuvil.tensor<[n, 2, 5] x i32>) -> !cuvil.tensor<[n, 2, 5] x i32>
    %4 = "cuvil.cast"(%3) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2, 5] x i32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2, 1] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2, 1] x i8>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2, 1] x i8>) -> !cuvil.tensor<[2, 2, 1] x i32>
    %10 = "cuvil.cast"(%9) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2, 1] x i32>) -> !cuvil.tensor<[2, 2, 1] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1, 1] x f32, [0.25, 0.5]>} : () -> !cuvil.tensor<[2, 1, 1] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = array<i64: 2, 2, 1>} : (!cuvil.tensor<[2, 1, 1] x f32>) -> !cuvil.tensor<[2, 2, 1] x f32>
    %13 = "cuvil.mul"(%10, %12) : (!cuvil.tensor<[2, 2, 1] x f32>, !cuvil.tensor<[2, 2, 1] x f32>) -> !cuvil.tensor<[2, 2, 1] x f32>
    %14 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %15 = "cuvil.conv"(%7, %13, %14) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 1>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[2, 2, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    "func.return"(%15) : (!cuvil.tensor<[n, 2, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2, 1] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2, 1] x i8>
    %2 = "cuvil.conv"(%arg0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pad_value = 3 : i64, pads_hi = array<i64: 0>, pads_lo = array<i64: 1>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 2, 5] x u8>, !cuvil.tensor<[2, 2, 1] x i8>) -> !cuvil.tensor<[n, 2, 6] x i32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x i32, [-3, 21]>} : () -> !cuvil.tensor<[2, 1] x i32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2, 6]>} : (!cuvil.tensor<[2, 1] x i32>) -> !cuvil.tensor<[n, 2, 6] x i32>
    %5 = "cuvil.sub"(%2, %4) : (!cuvil.tensor<[n, 2, 6] x i32>, !cuvil.tensor<[n, 2, 6] x i32>) -> !cuvil.tensor<[n, 2, 6] x i32>
    %6 = "cuvil.cast"(%5) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2, 6] x i32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    %7 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [0.125, 0.25]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %8 = "cuvil.broadcast"(%7) {shape = #cuvil.dims<[n, 2, 6]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    %9 = "cuvil.mul"(%6, %8) : (!cuvil.tensor<[n, 2, 6] x f32>, !cuvil.tensor<[n, 2, 6] x f32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    %10 = "cuvil.reshape"(%0) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %11 = "cuvil.broadcast"(%10) {shape = #cuvil.dims<[n, 2, 6]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    %12 = "cuvil.add"(%9, %11) : (!cuvil.tensor<[n, 2, 6] x f32>, !cuvil.tensor<[n, 2, 6] x f32>) -> !cuvil.tensor<[n, 2, 6] x f32>
    "func.return"(%12) : (!cuvil.tensor<[n, 2, 6] x f32>) -> ()

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %1 = "cuvil.cast"(%0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[2, 2] x i32>
    %2 = "cuvil.cast"(%1) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.25, 0.5]>} : () -> !cuvil.tensor<[2] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %5 = "cuvil.mul"(%2, %4) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %6 = "cuvil.matmul"(%arg0, %5) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%6) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED an operand is not made of bytes by known scales

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[2, n] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, n] x u8>) -> !cuvil.tensor<[2, n] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [3]>} : () -> !cuvil.tensor<[] x i32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, n]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[2, n] x i32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[2, n] x i32>, !cuvil.tensor<[2, n] x i32>) -> !cuvil.tensor<[2, n] x i32>
    %4 = "cuvil.cast"(%3) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, n] x i32>) -> !cuvil.tensor<[2, n] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[2, n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, n] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[2, n] x f32>, !cuvil.tensor<[2, n] x f32>) -> !cuvil.tensor<[2, n] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[2, 2] x i32>
    %10 = "cuvil.cast"(%9) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %13 = "cuvil.mul"(%10, %12) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %14 = "cuvil.matmul"(%7, %13) {trans_a = true} : (!cuvil.tensor<[2, n] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%14) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED it is not computed in f32, or its rows are columns

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x u8>) -> !cuvil.tensor<[n, 2] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [3]>} : () -> !cuvil.tensor<[] x i32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 2] x i32>, !cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %4 = "cuvil.cast"(%3) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[2, 2] x i32>
    %10 = "cuvil.cast"(%9) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [0.25, 0.5]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %13 = "cuvil.mul"(%10, %12) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %14 = "cuvil.matmul"(%7, %13) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%14) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED an operand is not made of bytes by known scales

// RULE products-of-codes
  ^bb0(%arg0: !cuvil.tensor<[n, 2] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 2] x u8>) -> !cuvil.tensor<[n, 2] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [3]>} : () -> !cuvil.tensor<[] x i32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 2] x i32>, !cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x i32>
    %4 = "cuvil.cast"(%3) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 2] x i32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2] x i8>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 2] x i8>) -> !cuvil.tensor<[2, 2] x i32>
    %10 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 2] x i32, [130, 0]>} : () -> !cuvil.tensor<[1, 2] x i32>
    %11 = "cuvil.broadcast"(%10) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[1, 2] x i32>) -> !cuvil.tensor<[2, 2] x i32>
    %12 = "cuvil.sub"(%9, %11) : (!cuvil.tensor<[2, 2] x i32>, !cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x i32>
    %13 = "cuvil.cast"(%12) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[2, 2] x i32>) -> !cuvil.tensor<[2, 2] x f32>
    %14 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %15 = "cuvil.broadcast"(%14) {shape = array<i64: 2, 2>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %16 = "cuvil.mul"(%13, %15) : (!cuvil.tensor<[2, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[2, 2] x f32>
    %17 = "cuvil.matmul"(%7, %16) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%17) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED an operand is not made of bytes by known scales

// RULE conv-of-bytes
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 2>, lo = array<i64: 0, 0, 1>, value = 7.0 : f64} : (!cuvil.tensor<[n, 2, 5] x u8>) -> !cuvil.tensor<[n, 2, 8] x u8>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2, 1] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2, 1] x i8>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 2, 8] x u8>, !cuvil.tensor<[2, 2, 1] x i8>) -> !cuvil.tensor<[n, 2, 8] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 8] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2, 1] x i8, [1, -2, 3, 4]>} : () -> !cuvil.tensor<[2, 2, 1] x i8>
    %1 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 2, 5] x u8>) -> !cuvil.tensor<[n, 5, 2] x u8>
    %2 = "cuvil.conv"(%1, %0) {algorithm = "bytes", channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pad_value = 7 : i64, pads_hi = array<i64: 2>, pads_lo = array<i64: 1>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 5, 2] x u8>, !cuvil.tensor<[2, 2, 1] x i8>) -> !cuvil.tensor<[n, 8, 2] x i32>
    %3 = "cuvil.transpose"(%2) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 8, 2] x i32>) -> !cuvil.tensor<[n, 2, 8] x i32>
    "func.return"(%3) : (!cuvil.tensor<[n, 2, 8] x i32>) -> ()

// RULE conv-of-bytes
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 1, 2>, lo = array<i64: 0, 1, 1>, value = 7.0 : f64} : (!cuvil.tensor<[n, 2, 5] x u8>) -> !cuvil.tensor<[n, 4, 8] x u8>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 4, 1] x i8, [2, 2, 2, 2]>} : () -> !cuvil.tensor<[1, 4, 1] x i8>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 4, 8] x u8>, !cuvil.tensor<[1, 4, 1] x i8>) -> !cuvil.tensor<[n, 1, 8] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n, 1, 8] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 1, 2>, lo = array<i64: 0, 1, 1>, value = 7.0 : f64} : (!cuvil.tensor<[n, 2, 5] x u8>) -> !cuvil.tensor<[n, 4, 8] x u8>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 4, 1] x i8, [2, 2, 2, 2]>} : () -> !cuvil.tensor<[1, 4, 1] x i8>
    %2 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 4, 8] x u8>) -> !cuvil.tensor<[n, 8, 4] x u8>
    %3 = "cuvil.conv"(%2, %1) {algorithm = "bytes", channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 8, 4] x u8>, !cuvil.tensor<[1, 4, 1] x i8>) -> !cuvil.tensor<[n, 8, 1] x i32>
    %4 = "cuvil.transpose"(%3) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 8, 1] x i32>) -> !cuvil.tensor<[n, 1, 8] x i32>
    "func.return"(%4) : (!cuvil.tensor<[n, 1, 8] x i32>) -> ()

// RULE conv-of-bytes
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 2, 1] x f32, [1.0, -2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[2, 2, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[2, 2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED it does not sum products of bytes in i32

// RULE conv-of-bytes
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x u8>, %arg1: !cuvil.tensor<[2, 2, 1] x i8>):
    %0 = "cuvil.conv"(%arg0, %arg1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 2, 5] x u8>, !cuvil.tensor<[2, 2, 1] x i8>) -> !cuvil.tensor<[n, 2, 5] x i32>
    "func.return"(%0) : (!cuvil.tensor<[n, 2, 5] x i32>) -> ()
// REFUSED the weights are not constant bytes, or there are too many dimensions
