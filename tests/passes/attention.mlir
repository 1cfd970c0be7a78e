// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %4 = "cuvil.softmax"(%3) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.matmul"(%4, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%5) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, nan_rows = true, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>, %arg3: !cuvil.tensor<[n, m] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %4 = "cuvil.broadcast"(%arg3) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.add"(%3, %4) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %6 = "cuvil.softmax"(%5) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %7 = "cuvil.matmul"(%6, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%7) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>, %arg3: !cuvil.tensor<[n, m] x f32>):
    %0 = "cuvil.broadcast"(%arg3) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.attention"(%arg0, %arg1, %arg2, %0) {causal = false, has_mask = true, nan_rows = true, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[4, n, 8] x f32>, %arg1: !cuvil.tensor<[4, m, 8] x f32>, %arg2: !cuvil.tensor<[4, m, 8] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[4, n, 8] x f32>, !cuvil.tensor<[4, m, 8] x f32>) -> !cuvil.tensor<[4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[4, n, m] x f32>) -> !cuvil.tensor<[4, n, m] x f32>
    %2 = "cuvil.matmul"(%1, %arg2) : (!cuvil.tensor<[4, n, m] x f32>, !cuvil.tensor<[4, m, 8] x f32>) -> !cuvil.tensor<[4, n, 8] x f32>
    "func.return"(%2) : (!cuvil.tensor<[4, n, 8] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[4, n, 8] x f32>, %arg1: !cuvil.tensor<[4, m, 8] x f32>, %arg2: !cuvil.tensor<[4, m, 8] x f32>):
    %0 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[4, 1, n, 8]>} : (!cuvil.tensor<[4, n, 8] x f32>) -> !cuvil.tensor<[4, 1, n, 8] x f32>
    %1 = "cuvil.reshape"(%arg1) {shape = #cuvil.dims<[4, 1, m, 8]>} : (!cuvil.tensor<[4, m, 8] x f32>) -> !cuvil.tensor<[4, 1, m, 8] x f32>
    %2 = "cuvil.reshape"(%arg2) {shape = #cuvil.dims<[4, 1, m, 8]>} : (!cuvil.tensor<[4, m, 8] x f32>) -> !cuvil.tensor<[4, 1, m, 8] x f32>
    %3 = "cuvil.attention"(%0, %1, %2) {causal = false, has_mask = false, nan_rows = true, scale = 1.0 : f64} : (!cuvil.tensor<[4, 1, n, 8] x f32>, !cuvil.tensor<[4, 1, m, 8] x f32>, !cuvil.tensor<[4, 1, m, 8] x f32>) -> !cuvil.tensor<[4, 1, n, 8] x f32>
    %4 = "cuvil.reshape"(%3) {shape = #cuvil.dims<[4, n, 8]>} : (!cuvil.tensor<[4, 1, n, 8] x f32>) -> !cuvil.tensor<[4, n, 8] x f32>
    "func.return"(%4) : (!cuvil.tensor<[4, n, 8] x f32>) -> ()

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %4 = "cuvil.softmax"(%3) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.matmul"(%4, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%5, %4) : (!cuvil.tensor<[2, 4, n, 6] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the probabilities have another user

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %4 = "cuvil.softmax"(%3) {axis = 2 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.matmul"(%4, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%5) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the softmax is not over the last dimension

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [2, 8] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[2, 8] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) {trans_b = true} : (!cuvil.tensor<[n, 8] x f32>, !cuvil.tensor<[2, 8] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %5 = "cuvil.softmax"(%4) {axis = -1 : i64} : (!cuvil.tensor<[n, 2] x f32>) -> !cuvil.tensor<[n, 2] x f32>
    %6 = "cuvil.matmul"(%5, %arg1) : (!cuvil.tensor<[n, 2] x f32>, !cuvil.tensor<[2, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%6) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the product with v is transposed or not of rank 3 or 4

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[1, n, 3] x f32>, %arg1: !cuvil.tensor<[1, 2, 4] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [1, 2, 3] x f32, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]>} : () -> !cuvil.tensor<[1, 2, 3] x f32>
    %1 = "cuvil.matmul"(%arg0, %0) {trans_b = true} : (!cuvil.tensor<[1, n, 3] x f32>, !cuvil.tensor<[1, 2, 3] x f32>) -> !cuvil.tensor<[1, n, 2] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[1, n, 2]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[1, n, 2] x f32>
    %4 = "cuvil.mul"(%1, %3) : (!cuvil.tensor<[1, n, 2] x f32>, !cuvil.tensor<[1, n, 2] x f32>) -> !cuvil.tensor<[1, n, 2] x f32>
    %5 = "cuvil.softmax"(%4) {axis = -1 : i64} : (!cuvil.tensor<[1, n, 2] x f32>) -> !cuvil.tensor<[1, n, 2] x f32>
    %6 = "cuvil.matmul"(%5, %arg1) : (!cuvil.tensor<[1, n, 2] x f32>, !cuvil.tensor<[1, 2, 4] x f32>) -> !cuvil.tensor<[1, n, 4] x f32>
    "func.return"(%6) : (!cuvil.tensor<[1, n, 4] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | k or v is constant

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[n, 8] x f32>, %arg1: !cuvil.tensor<[8, 4] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) : (!cuvil.tensor<[n, 8] x f32>, !cuvil.tensor<[8, 4] x f32>) -> !cuvil.tensor<[n, 4] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 4] x f32>) -> ()
// REFUSED the left operand is no softmax of f32

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.exp"(%0) : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.softmax"(%1) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.matmul"(%2, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%3) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the scores are not a scaled product plus at most one mask

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, 8, n] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_a = true, trans_b = true} : (!cuvil.tensor<[2, 4, 8, n] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.matmul"(%1, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%2) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | q is transposed

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0x7F800000]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %4 = "cuvil.softmax"(%3) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.matmul"(%4, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%5) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the scale is not a finite number other than 0

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, 6, m] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.matmul"(%1, %arg2) {trans_b = true} : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, 6, m] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%2) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the product with v is transposed or not of rank 3 or 4

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[n, 4, 8] x f32>, %arg1: !cuvil.tensor<[m, 8] x f32>, %arg2: !cuvil.tensor<[m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[n, 4, 8] x f32>, !cuvil.tensor<[m, 8] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[n, 4, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    %3 = "cuvil.mul"(%0, %2) : (!cuvil.tensor<[n, 4, m] x f32>, !cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    %4 = "cuvil.softmax"(%3) {axis = -1 : i64} : (!cuvil.tensor<[n, 4, m] x f32>) -> !cuvil.tensor<[n, 4, m] x f32>
    %5 = "cuvil.matmul"(%4, %arg2) : (!cuvil.tensor<[n, 4, m] x f32>, !cuvil.tensor<[m, 6] x f32>) -> !cuvil.tensor<[n, 4, 6] x f32>
    "func.return"(%5) : (!cuvil.tensor<[n, 4, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | q, k and v differ in rank

// RULE heads-inside
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1, 3>} : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> !cuvil.tensor<[2, n, 4, 6] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, n, 4, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, heads_inner = true, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, n, 4, 6] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, n, 4, 6] x f32>) -> ()

// RULE heads-inside
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 2, 1, 3>} : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> !cuvil.tensor<[2, n, 4, 6] x f32>
    "func.return"(%1, %0) : (!cuvil.tensor<[2, n, 4, 6] x f32>, !cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the attention has another user

// RULE heads-inside
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, scale = 0.5 : f64} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    %1 = "cuvil.transpose"(%0) {perm = array<i64: 0, 1, 3, 2>} : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> !cuvil.tensor<[2, 4, 6, n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[2, 4, 6, n] x f32>) -> ()
// REFUSED it is no exchange of heads and rows of an attention

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.isnan"(%1) : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x bool>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.select"(%2, %4, %1) : (!cuvil.tensor<[2, 4, n, m] x bool>, !cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %6 = "cuvil.matmul"(%5, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%6) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.attention"(%arg0, %arg1, %arg2) {causal = false, has_mask = false, nan_rows = true, scale = 1.0 : f64, zero_nan_rows = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.isnan"(%1) : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x bool>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.select"(%2, %4, %1) : (!cuvil.tensor<[2, 4, n, m] x bool>, !cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %6 = "cuvil.matmul"(%5, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%6) : (!cuvil.tensor<[2, 4, n, 6] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the left operand is no softmax of f32

// RULE recognise-attention
  ^bb0(%arg0: !cuvil.tensor<[2, 4, n, 8] x f32>, %arg1: !cuvil.tensor<[2, 4, m, 8] x f32>, %arg2: !cuvil.tensor<[2, 4, m, 6] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) {trans_b = true} : (!cuvil.tensor<[2, 4, n, 8] x f32>, !cuvil.tensor<[2, 4, m, 8] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %1 = "cuvil.softmax"(%0) {axis = -1 : i64} : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %2 = "cuvil.isnan"(%1) : (!cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x bool>
    %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %4 = "cuvil.broadcast"(%3) {shape = #cuvil.dims<[2, 4, n, m]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %5 = "cuvil.select"(%2, %4, %1) : (!cuvil.tensor<[2, 4, n, m] x bool>, !cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> !cuvil.tensor<[2, 4, n, m] x f32>
    %6 = "cuvil.matmul"(%5, %arg2) : (!cuvil.tensor<[2, 4, n, m] x f32>, !cuvil.tensor<[2, 4, m, 6] x f32>) -> !cuvil.tensor<[2, 4, n, 6] x f32>
    "func.return"(%6, %1) : (!cuvil.tensor<[2, 4, n, 6] x f32>, !cuvil.tensor<[2, 4, n, m] x f32>) -> ()
// REFUSED the left operand is no softmax of f32 | the left operand is no softmax of f32
