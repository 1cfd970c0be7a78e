// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 8.0, 10.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [4] x f32, [1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[4] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [4, 3] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[4, 3] x f32>
    %2 = "cuvil.matmul"(%arg0, %1) {trans_b = true} : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[4, 3] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %3 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 4]>} : (!cuvil.tensor<[4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    %4 = "cuvil.mul"(%3, %2) : (!cuvil.tensor<[n, 4] x f32>, !cuvil.tensor<[n, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [4, 3] x f32, [1.0, 2.0, 3.0, 8.0, 10.0, 2.0, 6.0, 9.0, 12.0, 20.0, 4.0, 8.0]>} : () -> !cuvil.tensor<[4, 3] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) {trans_b = true} : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[4, 3] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 4] x f32>) -> ()

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2, 1] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[3, 2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2, 1] x f32, [2.0, 4.0, 6.0, 8.0, 10.0, 2.0]>} : () -> !cuvil.tensor<[3, 2, 1] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[3, 2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.mul"(%2, %4) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the convolution has a bias

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [5] x f32, [1.0, 2.0, 3.0, 4.0, 5.0]>} : () -> !cuvil.tensor<[5] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the weight or the factor is not constant per channel

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 4, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [4, 1, 1] x f32, [1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[4, 1, 1] x f32>
    %1 = "cuvil.conv_transpose"(%arg0, %0) {dilations = array<i64: 1>, groups = 2 : i64, has_bias = false, output_padding = array<i64: 0>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 4, 5] x f32>, !cuvil.tensor<[4, 1, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the transposed convolution has groups

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%4, %1) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED the product has another user

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[2, n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[2, n, 3] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[2, n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[2, n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[2, n, 2] x f32>, !cuvil.tensor<[2, n, 2] x f32>) -> !cuvil.tensor<[2, n, 2] x f32>
    "func.return"(%4) : (!cuvil.tensor<[2, n, 2] x f32>) -> ()
// REFUSED the weight is batched

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0x7F800000]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED a scaled weight leaves the range of normal numbers

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0000002153053333e-39]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED a scaled weight leaves the range of normal numbers

// RULE scale-into-weights
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.mul"(%arg0, %1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED no operand is a convolution or matrix product

// RULE scale-before-shift
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 1] x f32, [2.0]>} : () -> !cuvil.tensor<[1, 1] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [2.0, 4.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %4 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[1, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.mul"(%1, %4) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %6 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %7 = "cuvil.add"(%5, %6) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE scale-before-shift
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [5] x f32, [1.0, 2.0, 3.0, 4.0, 5.0]>} : () -> !cuvil.tensor<[5] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the bias or the factor is not constant per channel

// RULE scale-before-shift
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0x7F800000]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %7 = "cuvil.mul"(%4, %6) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED a scaled shift leaves the range of normal numbers

// RULE scale-before-shift
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %5 = "cuvil.mul"(%2, %4) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED no operand is a convolution plus a constant

// RULE merge-shifts
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %6 = "cuvil.broadcast"(%5) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %7 = "cuvil.add"(%4, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%7) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [3.0, 4.0]>} : () -> !cuvil.tensor<[2] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2] x f32>) -> ()

// RULE merge-shifts
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[n, 2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.add"(%4, %arg1) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED no operand is a convolution plus a constant | the shifts are not constant per channel

// RULE merge-shifts
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %5 = "cuvil.add"(%2, %4) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED no operand is a convolution plus a constant | no operand is a convolution plus a constant

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 2>, lo = array<i64: 0, 0, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 8] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 1>, pads_lo = array<i64: 1>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 8] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 9] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 9] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 3>, pads_lo = array<i64: 2>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 9] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 9] x f32>) -> ()

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 2>, lo = array<i64: 0, 0, 1>, value = 1.0 : f64} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 8] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 8] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 7] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 7] x f32>) -> ()
// REFUSED the pad does not fill with zeros

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 2>, lo = array<i64: 0, 0, 1>, mode = "edge"} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 8] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 8] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 7] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 7] x f32>) -> ()
// REFUSED the pad does not fill with zeros

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 2>, lo = array<i64: 0, 1, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 4, 8] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 4, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 4, 2] x f32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 4, 8] x f32>, !cuvil.tensor<[2, 4, 2] x f32>) -> !cuvil.tensor<[n, 2, 7] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 7] x f32>) -> ()
// REFUSED the pad is not spatial

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 0, 0>, lo = array<i64: 0, 0, -1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 4] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 4] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()
// REFUSED a pad is negative or symbolic

// RULE pad-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0]>} : () -> !cuvil.tensor<[2, 3, 2] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 4] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 4] x f32>) -> ()
// REFUSED the operand is no pad

// RULE transpose-into-matmul
  ^bb0(%arg0: !cuvil.tensor<[2, n, 3] x f32>, %arg1: !cuvil.tensor<[2, m, 3] x f32>):
    %0 = "cuvil.transpose"(%arg1) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[2, m, 3] x f32>) -> !cuvil.tensor<[2, 3, m] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[2, n, 3] x f32>, !cuvil.tensor<[2, 3, m] x f32>) -> !cuvil.tensor<[2, n, m] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, n, m] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, n, 3] x f32>, %arg1: !cuvil.tensor<[2, m, 3] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, n, 3] x f32>, !cuvil.tensor<[2, m, 3] x f32>) -> !cuvil.tensor<[2, n, m] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, n, m] x f32>) -> ()

// RULE transpose-into-matmul
  ^bb0(%arg0: !cuvil.tensor<[3, n] x f32>, %arg1: !cuvil.tensor<[3, m] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0>} : (!cuvil.tensor<[3, n] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.matmul"(%0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, m] x f32>) -> !cuvil.tensor<[n, m] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, m] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[3, n] x f32>, %arg1: !cuvil.tensor<[3, m] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_a = true} : (!cuvil.tensor<[3, n] x f32>, !cuvil.tensor<[3, m] x f32>) -> !cuvil.tensor<[n, m] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, m] x f32>) -> ()

// RULE transpose-into-matmul
  ^bb0(%arg0: !cuvil.tensor<[2, n, 3] x f32>, %arg1: !cuvil.tensor<[3, 2, m] x f32>):
    %0 = "cuvil.transpose"(%arg1) {perm = array<i64: 1, 0, 2>} : (!cuvil.tensor<[3, 2, m] x f32>) -> !cuvil.tensor<[2, 3, m] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[2, n, 3] x f32>, !cuvil.tensor<[2, 3, m] x f32>) -> !cuvil.tensor<[2, n, m] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, n, m] x f32>) -> ()
// REFUSED no operand is a transpose of the last two dimensions

// RULE constant-matmul-operand
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) {trans_b = true} : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[2, 3] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 4.0, 2.0, 5.0, 3.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) {trans_b = false} : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2] x f32>) -> ()

// RULE constant-matmul-operand
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED b is not a transposed constant

// RULE merge-products
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 3] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[3, 3] x f32>
    %3 = "cuvil.matmul"(%arg0, %2) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %4 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %5 = "cuvil.broadcast"(%4) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %6 = "cuvil.add"(%3, %5) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%1, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 5] x f32, [1.0, 2.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 1.0, 5.0, 1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[3, 5] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 5] x f32>) -> !cuvil.tensor<[n, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [5] x f32, [-0.0, -0.0, 1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[5] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 5]>} : (!cuvil.tensor<[5] x f32>) -> !cuvil.tensor<[n, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 5] x f32>, !cuvil.tensor<[n, 5] x f32>) -> !cuvil.tensor<[n, 5] x f32>
    %5 = "cuvil.slice"(%4) {size = #cuvil.dims<[n, 2]>, start = array<i64: 0, 0>, step = array<i64: 1, 1>} : (!cuvil.tensor<[n, 5] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %6 = "cuvil.slice"(%4) {size = #cuvil.dims<[n, 3]>, start = array<i64: 0, 2>, step = array<i64: 1, 1>} : (!cuvil.tensor<[n, 5] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%5, %6) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 3] x f32>) -> ()

// RULE merge-products
  ^bb0(%arg0: !cuvil.tensor<[n, 1] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[1, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[1, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 9] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0]>} : () -> !cuvil.tensor<[1, 9] x f32>
    %3 = "cuvil.matmul"(%arg0, %2) : (!cuvil.tensor<[n, 1] x f32>, !cuvil.tensor<[1, 9] x f32>) -> !cuvil.tensor<[n, 9] x f32>
    "func.return"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 9] x f32>) -> ()
// REFUSED the products are too different in width | an earlier product shares the left operand

// RULE merge-products
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3, 2] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[3, 2] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED no other product of a constant shares the left operand

// RULE transpose-into-matmul
  ^bb0(%arg0: !cuvil.tensor<[8, n] x u8>, %arg1: !cuvil.tensor<[8, 3] x i8>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 1, 0>} : (!cuvil.tensor<[8, n] x u8>) -> !cuvil.tensor<[n, 8] x u8>
    %1 = "cuvil.matmul"(%0, %arg1) {out = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 8] x u8>, !cuvil.tensor<[8, 3] x i8>) -> !cuvil.tensor<[n, 3] x i32>
    "func.return"(%1) : (!cuvil.tensor<[n, 3] x i32>) -> ()
// REFUSED integers are multiplied by rows

// RULE merge-products
  ^bb0(%arg0: !cuvil.tensor<[n, 8] x u8>, %arg1: !cuvil.tensor<[8, 3] x i8>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {out = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 8] x u8>, !cuvil.tensor<[8, 3] x i8>) -> !cuvil.tensor<[n, 3] x i32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3] x i32>) -> ()
// REFUSED sums of integers are scaled on their tiles, each product's by its own

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%3, %1) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<".bias", [2] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [2] x f32, [0.5, -1.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %5 = "cuvil.add"(%2, %4) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<".bias", [2] x f32, [1.5, 1.0]>} : () -> !cuvil.tensor<[2] x f32>
    %2 = "cuvil.conv"(%arg0, %0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4, %1) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the convolution has another user

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 2, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.add"(%1, %arg1) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED what is added is not constant per channel

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[2] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0, %arg1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = true, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 1] x f32, [1.0, 2.0]>} : () -> !cuvil.tensor<[2, 1] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2, 5]>} : (!cuvil.tensor<[2, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED the convolution's own bias is not constant

// RULE bias-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 2, 5] x f32>, %arg1: !cuvil.tensor<[n, 2, 5] x f32>):
    %0 = "cuvil.add"(%arg0, %arg1) : (!cuvil.tensor<[n, 2, 5] x f32>, !cuvil.tensor<[n, 2, 5] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// REFUSED no operand is a convolution

// RULE bytes-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x u8>, %arg1: !cuvil.tensor<[2, 3, 1] x u8>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 3, 5] x u8>) -> !cuvil.tensor<[n, 3, 5] x i32>
    %1 = "cuvil.cast"(%arg1) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[2, 3, 1] x u8>) -> !cuvil.tensor<[2, 3, 1] x i32>
    %2 = "cuvil.conv"(%0, %1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 1>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x i32>, !cuvil.tensor<[2, 3, 1] x i32>) -> !cuvil.tensor<[n, 2, 6] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n, 2, 6] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x u8>, %arg1: !cuvil.tensor<[2, 3, 1] x u8>):
    %0 = "cuvil.conv"(%arg0, %arg1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, out = #cuvil.dtype<i32>, pads_hi = array<i64: 1>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x u8>, !cuvil.tensor<[2, 3, 1] x u8>) -> !cuvil.tensor<[n, 2, 6] x i32>
    "func.return"(%0) : (!cuvil.tensor<[n, 2, 6] x i32>) -> ()

// RULE bytes-into-conv
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x u8>, %arg1: !cuvil.tensor<[2, 3, 1] x i32>):
    %0 = "cuvil.cast"(%arg0) {dtype = #cuvil.dtype<i32>} : (!cuvil.tensor<[n, 3, 5] x u8>) -> !cuvil.tensor<[n, 3, 5] x i32>
    %1 = "cuvil.conv"(%0, %arg1) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 1>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x i32>, !cuvil.tensor<[2, 3, 1] x i32>) -> !cuvil.tensor<[n, 2, 6] x i32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 6] x i32>) -> ()
// REFUSED its operands are not bytes made i32
