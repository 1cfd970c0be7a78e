// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.mul"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.div"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.sub"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [-0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [0]>} : () -> !cuvil.tensor<[] x i32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n] x i32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n] x i32>, !cuvil.tensor<[n] x i32>) -> !cuvil.tensor<[n] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x i32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [0]>} : () -> !cuvil.tensor<[] x i32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n] x i32>
    %2 = "cuvil.or"(%arg0, %1) : (!cuvil.tensor<[n] x i32>, !cuvil.tensor<[n] x i32>) -> !cuvil.tensor<[n] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n] x i32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x i32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x bool>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x bool>) -> !cuvil.tensor<[n] x bool>
    %2 = "cuvil.and"(%arg0, %1) : (!cuvil.tensor<[n] x bool>, !cuvil.tensor<[n] x bool>) -> !cuvil.tensor<[n] x bool>
    "func.return"(%2) : (!cuvil.tensor<[n] x bool>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x bool>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x bool>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.mul"(%1, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED no operand is neutral

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [-0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.sub"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED no operand is neutral

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.mul"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED no operand is neutral

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [1]>} : () -> !cuvil.tensor<[] x i32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n] x i32>
    %2 = "cuvil.and"(%arg0, %1) : (!cuvil.tensor<[n] x i32>, !cuvil.tensor<[n] x i32>) -> !cuvil.tensor<[n] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n] x i32>) -> ()
// REFUSED no operand is neutral

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x bool>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x bool>) -> !cuvil.tensor<[n] x bool>
    %2 = "cuvil.or"(%arg0, %1) : (!cuvil.tensor<[n] x bool>, !cuvil.tensor<[n] x bool>) -> !cuvil.tensor<[n] x bool>
    "func.return"(%2) : (!cuvil.tensor<[n] x bool>) -> ()
// REFUSED no operand is neutral

// RULE neutral-operand
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.sub"(%1, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED no operand is neutral

// RULE small-power
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.pow"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE small-power
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.pow"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.mul"(%arg0, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE small-power
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [3.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.pow"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.mul"(%arg0, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    %1 = "cuvil.mul"(%0, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE small-power
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.5]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.pow"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the exponent is not the constant 1, 2 or 3

// RULE divide-by-power-of-two
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [-8.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.div"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [-0.125]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.mul"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE divide-by-power-of-two
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [3.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.div"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the divisor is no power of two

// RULE divide-by-power-of-two
  ^bb0(%arg0: !cuvil.tensor<[n] x i32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i32, [2]>} : () -> !cuvil.tensor<[] x i32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x i32>) -> !cuvil.tensor<[n] x i32>
    %2 = "cuvil.div"(%arg0, %1) : (!cuvil.tensor<[n] x i32>, !cuvil.tensor<[n] x i32>) -> !cuvil.tensor<[n] x i32>
    "func.return"(%2) : (!cuvil.tensor<[n] x i32>) -> ()
// REFUSED the divisor is no float constant

// RULE divide-by-power-of-two
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [1073741824.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.div"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the divisor is no power of two
