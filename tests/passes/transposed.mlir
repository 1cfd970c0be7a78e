// RULE transposed-conv-as-product
  ^bb0(%arg0: !cuvil.tensor<[n, 3, m, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1, 2, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]>} : () -> !cuvil.tensor<[2, 1, 2, 2] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {channels_last = true, dilations = array<i64: 1, 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0, 0>, pads_hi = array<i64: 0, 0>, pads_lo = array<i64: 0, 0>, strides = array<i64: 2, 2>} : (!cuvil.tensor<[n, 3, m, 2] x f32>, !cuvil.tensor<[2, 1, 2, 2] x f32>) -> !cuvil.tensor<[n, 6, 2 * m, 1] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 6, 2 * m, 1] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, m, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 4] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]>} : () -> !cuvil.tensor<[2, 4] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3, m, 2] x f32>, !cuvil.tensor<[2, 4] x f32>) -> !cuvil.tensor<[n, 3, m, 4] x f32>
    %2 = "cuvil.reshape"(%1) {shape = #cuvil.dims<[n, 3, m, 2, 2, 1]>} : (!cuvil.tensor<[n, 3, m, 4] x f32>) -> !cuvil.tensor<[n, 3, m, 2, 2, 1] x f32>
    %3 = "cuvil.transpose"(%2) {perm = array<i64: 0, 1, 3, 2, 4, 5>} : (!cuvil.tensor<[n, 3, m, 2, 2, 1] x f32>) -> !cuvil.tensor<[n, 3, 2, m, 2, 1] x f32>
    %4 = "cuvil.reshape"(%3) {shape = #cuvil.dims<[n, 6, 2 * m, 1]>} : (!cuvil.tensor<[n, 3, 2, m, 2, 1] x f32>) -> !cuvil.tensor<[n, 6, 2 * m, 1] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 6, 2 * m, 1] x f32>) -> ()

// RULE transposed-conv-as-product
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1, 2] x f32, [1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[2, 1, 2] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 2] x f32>, !cuvil.tensor<[2, 1, 2] x f32>) -> !cuvil.tensor<[n, 4, 1] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 4, 1] x f32>) -> ()
// REFUSED its windows overlap or leave gaps

// RULE transposed-conv-as-product
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1, 2] x f32, [1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[2, 1, 2] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 1>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 2>} : (!cuvil.tensor<[n, 3, 2] x f32>, !cuvil.tensor<[2, 1, 2] x f32>) -> !cuvil.tensor<[n, 7, 1] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 7, 1] x f32>) -> ()
// REFUSED its output is cut or grown

// RULE transposed-conv-as-product
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1, 2] x f32, [1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[2, 1, 2] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 2>} : (!cuvil.tensor<[n, 2, 3] x f32>, !cuvil.tensor<[2, 1, 2] x f32>) -> !cuvil.tensor<[n, 1, 6] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 1, 6] x f32>) -> ()
// REFUSED its channels are not last, or in groups

// RULE transposed-conv-as-product
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 2] x f32>, %arg1: !cuvil.tensor<[2, 1, 2] x f32>):
    %0 = "cuvil.conv_transpose"(%arg0, %arg1) {channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 2>} : (!cuvil.tensor<[n, 3, 2] x f32>, !cuvil.tensor<[2, 1, 2] x f32>) -> !cuvil.tensor<[n, 6, 1] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 6, 1] x f32>) -> ()
// REFUSED its weights are not constant, or it has a bias
