// RULE decompose-softmax
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.softmax"(%arg0) {axis = -1 : i64} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.reduce_max"(%arg0) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %2 = "cuvil.sub"(%arg0, %1) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %3 = "cuvil.exp"(%2) : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %4 = "cuvil.reduce_sum"(%3) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %5 = "cuvil.broadcast"(%4) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %6 = "cuvil.div"(%3, %5) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%6) : (!cuvil.tensor<[n, 4] x f32>) -> ()

// RULE decompose-softmax
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f16>):
    %0 = "cuvil.log_softmax"(%arg0) {axis = 0 : i64} : (!cuvil.tensor<[n, 4] x f16>) -> !cuvil.tensor<[n, 4] x f16>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f16>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 4] x f16>) -> !cuvil.tensor<[n, 4] x f32>
    %1 = "cuvil.reduce_max"(%0) {axes = array<i64: 0>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %4 = "cuvil.exp"(%3) : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %5 = "cuvil.reduce_sum"(%4) {axes = array<i64: 0>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %6 = "cuvil.log"(%5) : (!cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %7 = "cuvil.broadcast"(%6) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %8 = "cuvil.sub"(%3, %7) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<f16>} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f16>
    "func.return"(%9) : (!cuvil.tensor<[n, 4] x f16>) -> ()

// RULE decompose-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>, %arg1: !cuvil.tensor<[4] x f32>, %arg2: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.layer_norm"(%arg0, %arg1, %arg2) {axes_from = 1 : i64, eps = 0.5 : f64, has_bias = true, has_weight = true} : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[4] x f32>, !cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>, %arg1: !cuvil.tensor<[4] x f32>, %arg2: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.reduce_mean"(%arg0) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %2 = "cuvil.sub"(%arg0, %1) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %3 = "cuvil.reduce_mean"(%2) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %4 = "cuvil.mul"(%2, %2) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %5 = "cuvil.reduce_mean"(%4) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %6 = "cuvil.mul"(%3, %3) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %7 = "cuvil.sub"(%5, %6) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %8 = "cuvil.abs"(%7) : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %9 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %10 = "cuvil.sub"(%2, %9) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = #cuvil.dims<[n, 1]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %13 = "cuvil.add"(%8, %12) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %14 = "cuvil.rsqrt"(%13) : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %15 = "cuvil.broadcast"(%14) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %16 = "cuvil.mul"(%10, %15) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %17 = "cuvil.broadcast"(%arg1) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %18 = "cuvil.mul"(%16, %17) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %19 = "cuvil.broadcast"(%arg2) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %20 = "cuvil.add"(%18, %19) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%20) : (!cuvil.tensor<[n, 4] x f32>) -> ()

// RULE decompose-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f16>):
    %0 = "cuvil.rms_norm"(%arg0) {axes_from = 1 : i64, eps = 0.5 : f64, has_weight = false} : (!cuvil.tensor<[n, 4] x f16>) -> !cuvil.tensor<[n, 4] x f16>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f16>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[n, 4] x f16>) -> !cuvil.tensor<[n, 4] x f32>
    %1 = "cuvil.mul"(%0, %0) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %2 = "cuvil.reduce_mean"(%1) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 1]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %5 = "cuvil.add"(%2, %4) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %6 = "cuvil.rsqrt"(%5) : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %7 = "cuvil.broadcast"(%6) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %8 = "cuvil.mul"(%0, %7) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %9 = "cuvil.cast"(%8) {dtype = #cuvil.dtype<f16>} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f16>
    "func.return"(%9) : (!cuvil.tensor<[n, 4] x f16>) -> ()

// RULE decompose-group-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 4, m] x f32>):
    %0 = "cuvil.group_norm"(%arg0) {eps = 0.5 : f64, groups = 2 : i64, has_bias = false, has_weight = false} : (!cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4, m] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4, m] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[n, 2, 2, m]>} : (!cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %1 = "cuvil.reduce_mean"(%0) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 2, 2, m]>} : (!cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[n, 2, 2, m] x f32>, !cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %4 = "cuvil.reduce_mean"(%3) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %5 = "cuvil.mul"(%3, %3) : (!cuvil.tensor<[n, 2, 2, m] x f32>, !cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %6 = "cuvil.reduce_mean"(%5) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %7 = "cuvil.mul"(%4, %4) : (!cuvil.tensor<[n, 2, 1, 1] x f32>, !cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %8 = "cuvil.sub"(%6, %7) : (!cuvil.tensor<[n, 2, 1, 1] x f32>, !cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %9 = "cuvil.abs"(%8) : (!cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %10 = "cuvil.broadcast"(%4) {shape = #cuvil.dims<[n, 2, 2, m]>} : (!cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %11 = "cuvil.sub"(%3, %10) : (!cuvil.tensor<[n, 2, 2, m] x f32>, !cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %12 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %13 = "cuvil.broadcast"(%12) {shape = #cuvil.dims<[n, 2, 1, 1]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %14 = "cuvil.add"(%9, %13) : (!cuvil.tensor<[n, 2, 1, 1] x f32>, !cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %15 = "cuvil.rsqrt"(%14) : (!cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 1, 1] x f32>
    %16 = "cuvil.broadcast"(%15) {shape = #cuvil.dims<[n, 2, 2, m]>} : (!cuvil.tensor<[n, 2, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %17 = "cuvil.mul"(%11, %16) : (!cuvil.tensor<[n, 2, 2, m] x f32>, !cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 2, 2, m] x f32>
    %18 = "cuvil.reshape"(%17) {shape = #cuvil.dims<[n, 4, m]>} : (!cuvil.tensor<[n, 2, 2, m] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    "func.return"(%18) : (!cuvil.tensor<[n, 4, m] x f32>) -> ()

// RULE decompose-group-norm
  ^bb0(%arg0: !cuvil.tensor<[2, 4, 3] x f32>, %arg1: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.instance_norm"(%arg0, %arg1) {eps = 0.5 : f64, has_bias = false, has_weight = true} : (!cuvil.tensor<[2, 4, 3] x f32>, !cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[2, 4, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, 4, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, 4, 3] x f32>, %arg1: !cuvil.tensor<[4] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = array<i64: 2, 4, 1, 3>} : (!cuvil.tensor<[2, 4, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %1 = "cuvil.reduce_mean"(%0) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = array<i64: 2, 4, 1, 3>} : (!cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %3 = "cuvil.sub"(%0, %2) : (!cuvil.tensor<[2, 4, 1, 3] x f32>, !cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %4 = "cuvil.reduce_mean"(%3) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %5 = "cuvil.mul"(%3, %3) : (!cuvil.tensor<[2, 4, 1, 3] x f32>, !cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %6 = "cuvil.reduce_mean"(%5) {axes = array<i64: 2, 3>, keepdims = true} : (!cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %7 = "cuvil.mul"(%4, %4) : (!cuvil.tensor<[2, 4, 1, 1] x f32>, !cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %8 = "cuvil.sub"(%6, %7) : (!cuvil.tensor<[2, 4, 1, 1] x f32>, !cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %9 = "cuvil.abs"(%8) : (!cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %10 = "cuvil.broadcast"(%4) {shape = array<i64: 2, 4, 1, 3>} : (!cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %11 = "cuvil.sub"(%3, %10) : (!cuvil.tensor<[2, 4, 1, 3] x f32>, !cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %12 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %13 = "cuvil.broadcast"(%12) {shape = array<i64: 2, 4, 1, 1>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %14 = "cuvil.add"(%9, %13) : (!cuvil.tensor<[2, 4, 1, 1] x f32>, !cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %15 = "cuvil.rsqrt"(%14) : (!cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 1] x f32>
    %16 = "cuvil.broadcast"(%15) {shape = array<i64: 2, 4, 1, 3>} : (!cuvil.tensor<[2, 4, 1, 1] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %17 = "cuvil.mul"(%11, %16) : (!cuvil.tensor<[2, 4, 1, 3] x f32>, !cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 1, 3] x f32>
    %18 = "cuvil.reshape"(%17) {shape = array<i64: 2, 4, 3>} : (!cuvil.tensor<[2, 4, 1, 3] x f32>) -> !cuvil.tensor<[2, 4, 3] x f32>
    %19 = "cuvil.reshape"(%arg1) {shape = array<i64: 4, 1>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[4, 1] x f32>
    %20 = "cuvil.broadcast"(%19) {shape = array<i64: 2, 4, 3>} : (!cuvil.tensor<[4, 1] x f32>) -> !cuvil.tensor<[2, 4, 3] x f32>
    %21 = "cuvil.mul"(%18, %20) : (!cuvil.tensor<[2, 4, 3] x f32>, !cuvil.tensor<[2, 4, 3] x f32>) -> !cuvil.tensor<[2, 4, 3] x f32>
    "func.return"(%21) : (!cuvil.tensor<[2, 4, 3] x f32>) -> ()

// RULE decompose-batch-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %4 = "cuvil.batch_norm"(%arg0, %0, %1, %2, %3) {eps = 1.0 : f64} : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.7071067690849304, 1.154700517654419]>} : () -> !cuvil.tensor<[2] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.2928932309150696, -0.3094010651111603]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.reshape"(%0) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 3]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %4 = "cuvil.mul"(%arg0, %3) : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[n, 2, 3] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %5 = "cuvil.reshape"(%1) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2, 3]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %7 = "cuvil.add"(%4, %6) : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[n, 2, 3] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()

// RULE decompose-batch-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 3] x f32>, %arg1: !cuvil.tensor<[2] x f32>, %arg2: !cuvil.tensor<[2] x f32>, %arg3: !cuvil.tensor<[2] x f32>, %arg4: !cuvil.tensor<[2] x f32>):
    %0 = "cuvil.exp"(%arg4) : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %1 = "cuvil.batch_norm"(%arg0, %arg1, %arg2, %arg3, %0) {eps = 1.0 : f64} : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 3] x f32>, %arg1: !cuvil.tensor<[2] x f32>, %arg2: !cuvil.tensor<[2] x f32>, %arg3: !cuvil.tensor<[2] x f32>, %arg4: !cuvil.tensor<[2] x f32>):
    %0 = "cuvil.exp"(%arg4) : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = array<i64: 2>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2] x f32>
    %3 = "cuvil.add"(%0, %2) : (!cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %4 = "cuvil.sqrt"(%3) : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %5 = "cuvil.div"(%arg1, %4) : (!cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %6 = "cuvil.mul"(%arg3, %5) : (!cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %7 = "cuvil.sub"(%arg2, %6) : (!cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    %8 = "cuvil.reshape"(%5) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %9 = "cuvil.broadcast"(%8) {shape = #cuvil.dims<[n, 2, 3]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %10 = "cuvil.mul"(%arg0, %9) : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[n, 2, 3] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %11 = "cuvil.reshape"(%7) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = #cuvil.dims<[n, 2, 3]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    %13 = "cuvil.add"(%10, %12) : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[n, 2, 3] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%13) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()

// RULE decompose-lrn
  ^bb0(%arg0: !cuvil.tensor<[n, 4, 3] x f32>):
    %0 = "cuvil.lrn"(%arg0) {alpha = 0.5 : f64, beta = 0.75 : f64, bias = 1.0 : f64, size = 2 : i64} : (!cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4, 3] x f32>):
    %0 = "cuvil.mul"(%arg0, %arg0) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %1 = "cuvil.pad"(%0) {hi = array<i64: 0, 1, 0>, lo = array<i64: 0, 0, 0>, mode = "constant", value = 0.0 : f64} : (!cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %2 = "cuvil.slice"(%1) {size = #cuvil.dims<[n, 4, 3]>, start = array<i64: 0, 0, 0>, step = array<i64: 1, 1, 1>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %3 = "cuvil.slice"(%1) {size = #cuvil.dims<[n, 4, 3]>, start = array<i64: 0, 1, 0>, step = array<i64: 1, 1, 1>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %4 = "cuvil.add"(%2, %3) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.25]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 4, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %8 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %9 = "cuvil.broadcast"(%8) {shape = #cuvil.dims<[n, 4, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %10 = "cuvil.add"(%7, %9) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %11 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.75]>} : () -> !cuvil.tensor<[] x f32>
    %12 = "cuvil.broadcast"(%11) {shape = #cuvil.dims<[n, 4, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %13 = "cuvil.pow"(%10, %12) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %14 = "cuvil.div"(%arg0, %13) : (!cuvil.tensor<[n, 4, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    "func.return"(%14) : (!cuvil.tensor<[n, 4, 3] x f32>) -> ()

// RULE decompose-lp-norm
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.lp_norm"(%arg0) {axis = -1 : i64, p = 2 : i64} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.mul"(%arg0, %arg0) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %1 = "cuvil.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %2 = "cuvil.sqrt"(%1) : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 1]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %5 = "cuvil.eq"(%2, %4) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x bool>
    %6 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0x7F800000]>} : () -> !cuvil.tensor<[] x f32>
    %7 = "cuvil.broadcast"(%6) {shape = #cuvil.dims<[n, 1]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %8 = "cuvil.select"(%5, %7, %2) : (!cuvil.tensor<[n, 1] x bool>, !cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 1] x f32>
    %9 = "cuvil.broadcast"(%8) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[n, 1] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %10 = "cuvil.div"(%arg0, %9) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%10) : (!cuvil.tensor<[n, 4] x f32>) -> ()

// RULE decompose-lp-norm
  ^bb0(%arg0: !cuvil.tensor<[3, 4] x f16>):
    %0 = "cuvil.lp_norm"(%arg0) {axis = 0 : i64, p = 1 : i64} : (!cuvil.tensor<[3, 4] x f16>) -> !cuvil.tensor<[3, 4] x f16>
    "func.return"(%0) : (!cuvil.tensor<[3, 4] x f16>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[3, 4] x f16>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<f32>} : (!cuvil.tensor<[3, 4] x f16>) -> !cuvil.tensor<[3, 4] x f32>
    %1 = "cuvil.abs"(%0) : (!cuvil.tensor<[3, 4] x f32>) -> !cuvil.tensor<[3, 4] x f32>
    %2 = "cuvil.reduce_sum"(%1) {axes = array<i64: 0>, keepdims = true} : (!cuvil.tensor<[3, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = array<i64: 1, 4>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %5 = "cuvil.eq"(%2, %4) : (!cuvil.tensor<[1, 4] x f32>, !cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[1, 4] x bool>
    %6 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0x7F800000]>} : () -> !cuvil.tensor<[] x f32>
    %7 = "cuvil.broadcast"(%6) {shape = array<i64: 1, 4>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %8 = "cuvil.select"(%5, %7, %2) : (!cuvil.tensor<[1, 4] x bool>, !cuvil.tensor<[1, 4] x f32>, !cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    %9 = "cuvil.broadcast"(%8) {shape = array<i64: 3, 4>} : (!cuvil.tensor<[1, 4] x f32>) -> !cuvil.tensor<[3, 4] x f32>
    %10 = "cuvil.div"(%0, %9) : (!cuvil.tensor<[3, 4] x f32>, !cuvil.tensor<[3, 4] x f32>) -> !cuvil.tensor<[3, 4] x f32>
    %11 = "cuvil.cast"(%10) {dtype = #cuvil.dtype<f16>} : (!cuvil.tensor<[3, 4] x f32>) -> !cuvil.tensor<[3, 4] x f16>
    "func.return"(%11) : (!cuvil.tensor<[3, 4] x f16>) -> ()

// RULE reduce-nothing
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.reduce_max"(%arg0) {axes = [], keepdims = false} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n, 4] x f32>) -> ()

// RULE reduce-nothing
  ^bb0(%arg0: !cuvil.tensor<[] x f32>):
    %0 = "cuvil.argmax"(%arg0) {axis = -1 : i64, keepdims = false} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[] x i64>
    "func.return"(%0) : (!cuvil.tensor<[] x i64>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [0]>} : () -> !cuvil.tensor<[] x i64>
    "func.return"(%0) : (!cuvil.tensor<[] x i64>) -> ()

// RULE reduce-nothing
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 0>, keepdims = false} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[4] x f32>) -> ()
// REFUSED it has an axis

// RULE reduce-nothing
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.argmin"(%arg0) {axis = 0 : i64, keepdims = true} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[1] x i64>
    "func.return"(%0) : (!cuvil.tensor<[1] x i64>) -> ()
// REFUSED it has an axis

// RULE keep-reduced-dims
  ^bb0(%arg0: !cuvil.tensor<[n, 4, m] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 0, 2>, keepdims = false} : (!cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4, m] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 0, 2>, keepdims = true} : (!cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[1, 4, 1] x f32>
    %1 = "cuvil.reshape"(%0) {shape = array<i64: 4>} : (!cuvil.tensor<[1, 4, 1] x f32>) -> !cuvil.tensor<[4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[4] x f32>) -> ()

// RULE keep-reduced-dims
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.argmax"(%arg0) {axis = 1 : i64, keepdims = false, last = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n] x i64>
    "func.return"(%0) : (!cuvil.tensor<[n] x i64>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.argmax"(%arg0) {axis = 1 : i64, keepdims = true, last = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 1] x i64>
    %1 = "cuvil.reshape"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[n, 1] x i64>) -> !cuvil.tensor<[n] x i64>
    "func.return"(%1) : (!cuvil.tensor<[n] x i64>) -> ()

// RULE keep-reduced-dims
  ^bb0(%arg0: !cuvil.tensor<[n, 4] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 0>, keepdims = true} : (!cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[1, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[1, 4] x f32>) -> ()
// REFUSED it keeps its dimensions

// RULE conv-bias
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %3 = "cuvil.reshape"(%1) {shape = array<i64: 2, 1>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2, 1] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.add"(%2, %4) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE conv-bias
  ^bb0(%arg0: !cuvil.tensor<[n, 5, 4, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {channels_last = true, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0, 0>, pads_lo = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (!cuvil.tensor<[n, 5, 4, 3] x f32>, !cuvil.tensor<[2, 3, 1, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 5, 4, 2] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 5, 4, 2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 5, 4, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0) {channels_last = true, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0, 0>, pads_lo = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (!cuvil.tensor<[n, 5, 4, 3] x f32>, !cuvil.tensor<[2, 3, 1, 1] x f32>) -> !cuvil.tensor<[n, 5, 4, 2] x f32>
    %3 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 5, 4, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 5, 4, 2] x f32>
    %4 = "cuvil.add"(%2, %3) : (!cuvil.tensor<[n, 5, 4, 2] x f32>, !cuvil.tensor<[n, 5, 4, 2] x f32>) -> !cuvil.tensor<[n, 5, 4, 2] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 5, 4, 2] x f32>) -> ()

// RULE conv-bias
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED it has no bias
