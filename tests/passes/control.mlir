// RULE prune-branch
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [false]>} : () -> !cuvil.tensor<[] x bool>
    %1 = "scf.if"(%0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.exp"(%arg1) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
    }, {
    ^bb0(%arg2: !cuvil.tensor<[n] x f32>):
      %3 = "cuvil.neg"(%arg2) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%3) : (!cuvil.tensor<[n] x f32>) -> ()
    }) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.neg"(%arg0) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE prune-branch
  ^bb0(%arg0: !cuvil.tensor<[] x bool>, %arg1: !cuvil.tensor<[n] x f32>):
    %0 = "scf.if"(%arg0, %arg1) ({
    ^bb0(%arg2: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.exp"(%arg2) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }, {
    ^bb0(%arg3: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.neg"(%arg3) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
    }) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the condition is no constant

// RULE unroll-loop
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0, %1 = "scf.for"(%arg0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>, %arg3: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.mul"(%arg2, %arg3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%2, %arg2) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = 2 : i64} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[2, n] x f32>)
    "func.return"(%0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[2, n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.mul"(%arg0, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    %1 = "cuvil.mul"(%0, %arg0) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    %2 = "cuvil.reshape"(%arg0) {shape = #cuvil.dims<[1, n]>} : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[1, n] x f32>
    %3 = "cuvil.reshape"(%0) {shape = #cuvil.dims<[1, n]>} : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[1, n] x f32>
    %4 = "cuvil.concat"(%2, %3) {axis = 0 : i64} : (!cuvil.tensor<[1, n] x f32>, !cuvil.tensor<[1, n] x f32>) -> !cuvil.tensor<[2, n] x f32>
    "func.return"(%1, %4) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[2, n] x f32>) -> ()

// RULE unroll-loop
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0, %1 = "scf.for"(%arg0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>, %arg3: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.mul"(%arg2, %arg3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%2, %arg2) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = 0 : i64} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[0, n] x f32>)
    "func.return"(%0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[0, n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [0.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[0, n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[0, n] x f32>
    "func.return"(%arg0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[0, n] x f32>) -> ()

// RULE unroll-loop
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "scf.for"(%arg0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>, %arg3: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.mul"(%arg2, %arg3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = #cuvil.dim<n>} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED the number of trips is symbolic

// RULE unroll-loop
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "scf.for"(%arg0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>, %arg3: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.mul"(%arg2, %arg3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = 40 : i64} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED 40 trips of 2 ops are too many

// RULE settle-while
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [9]>} : () -> !cuvil.tensor<[] x i64>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
    %2 = "scf.while"(%0, %1, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>):
      %3 = "cuvil.neg"(%arg2) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %4 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
      "cuvil.yield"(%4, %3) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64} : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "scf.for"(%arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.neg"(%arg2) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = 9 : i64} : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE settle-while
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>, %arg1: !cuvil.tensor<[] x i64>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [false]>} : () -> !cuvil.tensor<[] x bool>
    %1 = "scf.while"(%arg1, %0, %arg0) ({
    ^bb0(%arg2: !cuvil.tensor<[] x i64>, %arg3: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.neg"(%arg3) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [3]>} : () -> !cuvil.tensor<[] x i64>
      %4 = "cuvil.lt"(%arg2, %3) : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[] x bool>
      "cuvil.yield"(%4, %2) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64} : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>, %arg1: !cuvil.tensor<[] x i64>):
    "func.return"(%arg0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE settle-while
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>, %arg1: !cuvil.tensor<[] x i64>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
    %1 = "scf.while"(%arg1, %0, %arg0) ({
    ^bb0(%arg2: !cuvil.tensor<[] x i64>, %arg3: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.neg"(%arg3) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %3 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
      "cuvil.yield"(%3, %2) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64} : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED its limit or first condition is no constant

// RULE settle-while
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [9]>} : () -> !cuvil.tensor<[] x i64>
    %1 = "cuvil.constant"() {value = #cuvil.dense<"", [] x bool, [true]>} : () -> !cuvil.tensor<[] x bool>
    %2 = "scf.while"(%0, %1, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>):
      %3 = "cuvil.neg"(%arg2) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %4 = "cuvil.constant"() {value = #cuvil.dense<"", [] x i64, [3]>} : () -> !cuvil.tensor<[] x i64>
      %5 = "cuvil.lt"(%arg1, %4) : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x i64>) -> !cuvil.tensor<[] x bool>
      "cuvil.yield"(%5, %3) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64} : (!cuvil.tensor<[] x i64>, !cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED data decides when it ends

// RULE slim-control
  ^bb0(%arg0: !cuvil.tensor<[] x bool>, %arg1: !cuvil.tensor<[n] x f32>, %arg2: !cuvil.tensor<[n] x f32>):
    %0 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
    %2, %3 = "scf.if"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg3: !cuvil.tensor<[n] x f32>, %arg4: !cuvil.tensor<[n] x f32>):
      %4 = "cuvil.exp"(%arg3) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %5 = "cuvil.neg"(%arg4) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%4, %5) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
    }, {
    ^bb0(%arg5: !cuvil.tensor<[n] x f32>, %arg6: !cuvil.tensor<[n] x f32>):
      %6 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
      %7 = "cuvil.broadcast"(%6) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
      %8 = "cuvil.add"(%arg5, %7) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %9 = "cuvil.abs"(%arg6) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%8, %9) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
    }) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>)
    "func.return"(%2) : (!cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[] x bool>, %arg1: !cuvil.tensor<[n] x f32>, %arg2: !cuvil.tensor<[n] x f32>):
    %0 = "scf.if"(%arg0, %arg1) ({
    ^bb0(%arg3: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.exp"(%arg3) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }, {
    ^bb0(%arg4: !cuvil.tensor<[n] x f32>):
      %2 = "cuvil.constant"() {value = #cuvil.dense<"", [] x f32, [2.0]>} : () -> !cuvil.tensor<[] x f32>
      %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[n]>} : (!cuvil.tensor<[] x f32>) -> !cuvil.tensor<[n] x f32>
      %4 = "cuvil.add"(%arg4, %3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%4) : (!cuvil.tensor<[n] x f32>) -> ()
    }) : (!cuvil.tensor<[] x bool>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()

// RULE slim-control
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>, %arg1: !cuvil.tensor<[n] x f32>):
    %0, %1, %2 = "scf.for"(%arg0, %arg1, %arg0) ({
    ^bb0(%arg2: !cuvil.tensor<[] x i64>, %arg3: !cuvil.tensor<[n] x f32>, %arg4: !cuvil.tensor<[n] x f32>, %arg5: !cuvil.tensor<[n] x f32>):
      %3 = "cuvil.mul"(%arg3, %arg4) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      %4 = "cuvil.neg"(%arg5) : (!cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%3, %arg4, %4) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 3 : i64, trips = #cuvil.dim<n>} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>)
    "func.return"(%0, %1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>, %arg1: !cuvil.tensor<[n] x f32>):
    %0 = "scf.for"(%arg0, %arg1) ({
    ^bb0(%arg2: !cuvil.tensor<[] x i64>, %arg3: !cuvil.tensor<[n] x f32>, %arg4: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.mul"(%arg3, %arg4) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = #cuvil.dim<n>} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0, %arg1) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> ()

// RULE slim-control
  ^bb0(%arg0: !cuvil.tensor<[n] x f32>):
    %0 = "scf.for"(%arg0, %arg0) ({
    ^bb0(%arg1: !cuvil.tensor<[] x i64>, %arg2: !cuvil.tensor<[n] x f32>, %arg3: !cuvil.tensor<[n] x f32>):
      %1 = "cuvil.mul"(%arg2, %arg3) : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
      "cuvil.yield"(%1) : (!cuvil.tensor<[n] x f32>) -> ()
    }) {carried = 1 : i64, trips = #cuvil.dim<n>} : (!cuvil.tensor<[n] x f32>, !cuvil.tensor<[n] x f32>) -> !cuvil.tensor<[n] x f32>
    "func.return"(%0) : (!cuvil.tensor<[n] x f32>) -> ()
// REFUSED every result and capture is used
