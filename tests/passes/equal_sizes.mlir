// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[1, 3] x f32>, %arg2: !cuvil.tensor<[m + 2, 3] x f32>):
    %0 = "cuvil.broadcast"(%arg1) {shape = #cuvil.dims<[n, 3]>} : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.mul"(%arg0, %0) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.add"(%arg0, %1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %4 = "cuvil.add"(%3, %arg2) : (!cuvil.tensor<[m + 2, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%4) : (!cuvil.tensor<[m + 2, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[1, 3] x f32>, %arg2: !cuvil.tensor<[m + 2, 3] x f32>):
    %0 = "cuvil.broadcast"(%arg0) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %1 = "cuvil.broadcast"(%arg1) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %2 = "cuvil.mul"(%0, %1) : (!cuvil.tensor<[m + 2, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %3 = "cuvil.add"(%0, %2) : (!cuvil.tensor<[m + 2, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %4 = "cuvil.add"(%3, %arg2) : (!cuvil.tensor<[m + 2, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%4) : (!cuvil.tensor<[m + 2, 3] x f32>) -> ()

// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[1, 3] x f32>, %arg1: !cuvil.tensor<[m + 2, 3] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[1, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[1, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %2 = "cuvil.add"(%1, %arg1) : (!cuvil.tensor<[m + 2, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%2) : (!cuvil.tensor<[m + 2, 3] x f32>) -> ()
// REFUSED it repeats elements, or none of its sizes is written differently

// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%1) : (!cuvil.tensor<[m + 2, 3] x f32>) -> ()
// REFUSED what reads it reads from memory

// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>):
    %0 = "cuvil.exp"(%arg0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %2 = "cuvil.neg"(%1) : (!cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%0, %2) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> ()
// REFUSED what it reads is made by no map, or read elsewhere too

// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[3, 3] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.exp"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.broadcast"(%1) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %3 = "cuvil.neg"(%2) : (!cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%3) : (!cuvil.tensor<[m + 2, 3] x f32>) -> ()
// REFUSED the kernel that makes what the map reads computes the map in place

// RULE lift-equal-sizes
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[3, 3] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.matmul"(%0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.exp"(%0) : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %3 = "cuvil.broadcast"(%2) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %4 = "cuvil.neg"(%3) : (!cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%1, %4) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> ()
// AFTER
  ^bb0(%arg0: !cuvil.tensor<[n, 3] x f32>, %arg1: !cuvil.tensor<[3, 3] x f32>):
    %0 = "cuvil.matmul"(%arg0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %1 = "cuvil.matmul"(%0, %arg1) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[3, 3] x f32>) -> !cuvil.tensor<[n, 3] x f32>
    %2 = "cuvil.broadcast"(%0) {shape = #cuvil.dims<[m + 2, 3]>} : (!cuvil.tensor<[n, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %3 = "cuvil.exp"(%2) : (!cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    %4 = "cuvil.neg"(%3) : (!cuvil.tensor<[m + 2, 3] x f32>) -> !cuvil.tensor<[m + 2, 3] x f32>
    "func.return"(%1, %4) : (!cuvil.tensor<[n, 3] x f32>, !cuvil.tensor<[m + 2, 3] x f32>) -> ()
