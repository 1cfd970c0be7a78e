// RULE empty-result
  ^bb0(%arg0: !cuvil.tensor<[n, 0] x f32>):
    %0 = "cuvil.softmax"(%arg0) {axis = 1 : i64} : (!cuvil.tensor<[n, 0] x f32>) -> !cuvil.tensor<[n, 0] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 0] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 0] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 0]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 0] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 0] x f32>) -> ()

// RULE empty-result
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED a result has elements, or may have

// RULE fold-constant
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %2 = "cuvil.add"(%0, %1) : (!cuvil.tensor<[3] x f32>, !cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[3] x f32>) -> ()
// AFTER
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [2.0, 4.0, 6.0]>} : () -> !cuvil.tensor<[3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3] x f32>) -> ()

// RULE fold-constant
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [3]>} : () -> !cuvil.tensor<[] x i64>
    %2 = "cuvil.gather"(%0, %1) {axis = 0 : i64} : (!cuvil.tensor<[3] x f32>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[] x f32>
    "func.return"(%2) : (!cuvil.tensor<[] x f32>) -> ()
// REFUSED the operands are refused, as they will be at run time

// RULE fold-constant
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.pad"(%0) {hi = array<i64: 40000>, lo = array<i64: 0>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[40003] x f32>
    "func.return"(%1) : (!cuvil.tensor<[40003] x f32>) -> ()
// REFUSED the constant would be much larger than its operands

// RULE fold-constant
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.pad"(%0) {hi = #cuvil.dims<[n]>, lo = array<i64: 0>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[n + 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n + 3] x f32>) -> ()
// REFUSED the result has a symbolic dimension

// RULE fold-spread-constants
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [1.0, 2.0, 3.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %4 = "cuvil.add"(%1, %3) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%4) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// AFTER
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [3] x f32, [3.0, 4.0, 5.0]>} : () -> !cuvil.tensor<[3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n, 3] x f32>) -> ()

// RULE fold-spread-constants
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n, 3] x f32>) -> ()
// REFUSED an operand is not constant

// RULE fold-constant
  ^bb0(%arg0: !cuvil.tensor<[3] x f32>):
    %0 = "cuvil.neg"(%arg0) : (!cuvil.tensor<[3] x f32>) -> !cuvil.tensor<[3] x f32>
    "func.return"(%0) : (!cuvil.tensor<[3] x f32>) -> ()
// REFUSED an operand is not constant

// RULE fold-shape-value
  ^bb0():
    %0 = "cuvil.dims"() {values = #cuvil.dims<[n, m]>} : () -> !cuvil.tensor<[2] x i64>
    %1 = "cuvil.dims"() {values = #cuvil.dims<[2, n]>} : () -> !cuvil.tensor<[2] x i64>
    %2 = "cuvil.mul"(%0, %1) : (!cuvil.tensor<[2] x i64>, !cuvil.tensor<[2] x i64>) -> !cuvil.tensor<[2] x i64>
    "func.return"(%2) : (!cuvil.tensor<[2] x i64>) -> ()
// AFTER
  ^bb0():
    %0 = "cuvil.dims"() {values = #cuvil.dims<[2 * n, m * n]>} : () -> !cuvil.tensor<[2] x i64>
    "func.return"(%0) : (!cuvil.tensor<[2] x i64>) -> ()

// RULE fold-shape-value
  ^bb0():
    %0 = "cuvil.dims"() {values = #cuvil.dims<[7, n]>} : () -> !cuvil.tensor<[2] x i64>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [0]>} : () -> !cuvil.tensor<[] x i64>
    %2 = "cuvil.gather"(%0, %1) {axis = 0 : i64} : (!cuvil.tensor<[2] x i64>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[] x i64>
    "func.return"(%2) : (!cuvil.tensor<[] x i64>) -> ()
// AFTER
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [7]>} : () -> !cuvil.tensor<[] x i64>
    "func.return"(%0) : (!cuvil.tensor<[] x i64>) -> ()

// RULE fold-shape-value
  ^bb0(%arg0: !cuvil.tensor<[2] x i64>):
    %0 = "cuvil.dims"() {values = #cuvil.dims<[n, m]>} : () -> !cuvil.tensor<[2] x i64>
    %1 = "cuvil.add"(%arg0, %0) : (!cuvil.tensor<[2] x i64>, !cuvil.tensor<[2] x i64>) -> !cuvil.tensor<[2] x i64>
    "func.return"(%1) : (!cuvil.tensor<[2] x i64>) -> ()
// REFUSED its value depends on data

// RULE fold-shape-value
  ^bb0(%arg0: !cuvil.tensor<[2] x f32>):
    %0 = "cuvil.add"(%arg0, %arg0) : (!cuvil.tensor<[2] x f32>, !cuvil.tensor<[2] x f32>) -> !cuvil.tensor<[2] x f32>
    "func.return"(%0) : (!cuvil.tensor<[2] x f32>) -> ()
// REFUSED it is not a small integer vector

// RULE fold-shape-value
  ^bb0():
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [1] x i32, [2147483647]>} : () -> !cuvil.tensor<[1] x i32>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [1] x i32, [1]>} : () -> !cuvil.tensor<[1] x i32>
    %2 = "cuvil.add"(%0, %1) : (!cuvil.tensor<[1] x i32>, !cuvil.tensor<[1] x i32>) -> !cuvil.tensor<[1] x i32>
    "func.return"(%2) : (!cuvil.tensor<[1] x i32>) -> ()
// REFUSED an element wraps
