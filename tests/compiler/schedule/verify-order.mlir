// Values that are made further down, and parameters in kernels, are refused and not looked up.
// RUN: not tessera-opt --split-input-file -tessera-verify-scheduled %s 2>&1 | FileCheck %s

// CHECK: tsched.func: {{.*}}its ops do not form a rows group
tsched.func @itself(%x: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16xf32>) attributes {kind = "rows", source = "default"} {
  %0 = tessera.tanh %0 : tensor<16x8xf32>
  %1 = tessera.sum %0 {axes = [1]} : tensor<16x8xf32> -> tensor<16xf32>
  tsched.return %0, %1 : tensor<16x8xf32>, tensor<16xf32>
}

// -----

// CHECK: tsched.func: {{.*}}its ops do not form a rows group
tsched.func @later(%x: tensor<16x8xf32>) -> tensor<16xf32> attributes {kind = "rows", source = "default"} {
  %0 = tessera.sum %1 {axes = [1]} : tensor<16x8xf32> -> tensor<16xf32>
  %1 = tessera.tanh %x : tensor<16x8xf32>
  tsched.return %0 : tensor<16xf32>
}

// -----

// CHECK: tessera.param: 'w' is read in no function of the program
tile.func @kernel(%x: memref<4xf32>) grid 1 {
  %w = tessera.param "w" init = #tessera.constant<0.0> : tensor<4xf32>
  tile.return
}
