// RULE channels-last
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %2 = "cuvil.conv"(%1, %0) {channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 5, 2] x f32>
    %3 = "cuvil.transpose"(%2) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 5, 2] x f32>) -> !cuvil.tensor<[n, 2, 5] x f32>
    "func.return"(%3) : (!cuvil.tensor<[n, 2, 5] x f32>) -> ()

// RULE channels-last
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.max_pool"(%arg0) {dilations = array<i64: 1>, kernel = array<i64: 2>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3, 4] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.max_pool"(%0) {channels_last = true, dilations = array<i64: 1>, kernel = array<i64: 2>, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %2 = "cuvil.transpose"(%1) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 3, 4] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 3, 4] x f32>) -> ()

// RULE channels-last
  ^bb0(%arg0: !cuvil.tensor<[n, 5, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f32>
    %1 = "cuvil.conv"(%arg0, %0) {channels_last = true, dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[2, 3, 1] x f32>) -> !cuvil.tensor<[n, 5, 2] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 2] x f32>) -> ()
// REFUSED channels are last already

// RULE channels-last
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f64>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 3, 1] x f64, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 3, 1] x f64>
    %1 = "cuvil.conv"(%arg0, %0) {dilations = array<i64: 1>, groups = 1 : i64, has_bias = false, pads_hi = array<i64: 0>, pads_lo = array<i64: 0>, strides = array<i64: 1>} : (!cuvil.tensor<[n, 3, 5] x f64>, !cuvil.tensor<[2, 3, 1] x f64>) -> !cuvil.tensor<[n, 2, 5] x f64>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 5] x f64>) -> ()
// REFUSED only f32 has a channels-last convolution

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.exp"(%0) : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 5] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.transpose"(%arg1) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %2 = "cuvil.add"(%0, %1) : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.add"(%arg0, %arg1) : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 5] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [5, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0]>} : () -> !cuvil.tensor<[5, 1] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 5, 3]>} : (!cuvil.tensor<[5, 1] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%3) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [5, 1] x f32, [1.0, 2.0, 3.0, 4.0, 5.0]>} : () -> !cuvil.tensor<[5, 1] x f32>
    %1 = "cuvil.reshape"(%0) {shape = array<i64: 1, 5, 1>} : (!cuvil.tensor<[5, 1] x f32>) -> !cuvil.tensor<[1, 5, 1] x f32>
    %2 = "cuvil.transpose"(%1) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[1, 5, 1] x f32>) -> !cuvil.tensor<[1, 1, 5] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 3, 5]>} : (!cuvil.tensor<[1, 1, 5] x f32>) -> !cuvil.tensor<[n, 3, 5] x f32>
    %4 = "cuvil.mul"(%arg0, %3) : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 5] x f32>
    %5 = "cuvil.transpose"(%4) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 5, 3] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.add"(%0, %arg1) : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()
// REFUSED an operand can't be turned for free

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED no operand is a transpose

// RULE sink-transpose-through-map
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.materialize"(%0) : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 5, 3] x f32>) -> ()
// REFUSED its operand is to be laid out as it is

// RULE sink-transpose-through-reduce
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 1, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 1, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 2>, keepdims = true} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 1] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 1] x f32>) -> !cuvil.tensor<[n, 1, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 1, 3] x f32>) -> ()

// RULE sink-transpose-through-reduce
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = false} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED it drops its dimensions

// RULE sink-transpose-through-reduce
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.reduce_sum"(%arg0) {axes = array<i64: 1>, keepdims = true} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 1, 5] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 1, 5] x f32>) -> ()
// REFUSED the operand is no transpose

// RULE sink-transpose-through-concat
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 3, 4] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.transpose"(%arg1) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 4] x f32>) -> !cuvil.tensor<[n, 4, 3] x f32>
    %2 = "cuvil.concat"(%0, %1) {axis = 1 : i64} : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 9, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 9, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 3, 4] x f32>):
    %0 = "cuvil.concat"(%arg0, %arg1) {axis = 2 : i64} : (!cuvil.tensor<[n, 3, 5] x f32>, !cuvil.tensor<[n, 3, 4] x f32>) -> !cuvil.tensor<[n, 3, 9] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 9] x f32>) -> !cuvil.tensor<[n, 9, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 9, 3] x f32>) -> ()

// RULE sink-transpose-through-concat
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>, %arg1: !cuvil.tensor<[n, 4, 3] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.concat"(%0, %arg1) {axis = 1 : i64} : (!cuvil.tensor<[n, 5, 3] x f32>, !cuvil.tensor<[n, 4, 3] x f32>) -> !cuvil.tensor<[n, 9, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 9, 3] x f32>) -> ()
// REFUSED not every operand is the same transpose

// RULE sink-transpose-through-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.slice"(%0) {size = #cuvil.dims<[n, 2, 3]>, start = array<i64: 0, 1, 0>, step = array<i64: 1, 2, 1>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = #cuvil.dims<[n, 3, 2]>, start = array<i64: 0, 0, 1>, step = array<i64: 1, 1, 2>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 3, 2] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 2] x f32>) -> !cuvil.tensor<[n, 2, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 2, 3] x f32>) -> ()

// RULE sink-transpose-through-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.pad"(%0) {hi = array<i64: 0, 2, 3>, lo = array<i64: 0, 1, 0>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[n, 8, 6] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 8, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.pad"(%arg0) {hi = array<i64: 0, 3, 2>, lo = array<i64: 0, 0, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 6, 8] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 6, 8] x f32>) -> !cuvil.tensor<[n, 8, 6] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 8, 6] x f32>) -> ()

// RULE sink-transpose-through-slice
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.slice"(%arg0) {size = #cuvil.dims<[n, 2]>, start = array<i64: 0, 1>, step = array<i64: 1, 1>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 2] x f32>) -> ()
// REFUSED the operand is no transpose

// RULE sink-transpose-through-broadcast
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[n, 5, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[m + 2, 5, 3]>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[m + 2, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[m + 2, 5, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 5] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = #cuvil.dims<[m + 2, 3, 5]>} : (!cuvil.tensor<[n, 3, 5] x f32>) -> !cuvil.tensor<[m + 2, 3, 5] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[m + 2, 3, 5] x f32>) -> !cuvil.tensor<[m + 2, 5, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[m + 2, 5, 3] x f32>) -> ()

// RULE sink-transpose-through-broadcast
  ^bb0(%arg0: !cuvil.tensor<[n, 3, 1] x f32>):
    %0 = "cuvil.transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (!cuvil.tensor<[n, 3, 1] x f32>) -> !cuvil.tensor<[n, 1, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, m, 3]>} : (!cuvil.tensor<[n, 1, 3] x f32>) -> !cuvil.tensor<[n, m, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, m, 3] x f32>) -> ()
// REFUSED it repeats elements

// RULE sink-transpose-through-broadcast
  ^bb0(%arg0: !cuvil.tensor<[n, 5, 3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = #cuvil.dims<[m, 5, 3]>} : (!cuvil.tensor<[n, 5, 3] x f32>) -> !cuvil.tensor<[m, 5, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[m, 5, 3] x f32>) -> ()
// REFUSED the operand is no transpose
