// A store of the first lanes becomes stores of 4, 2 and 1: masks are slow before AVX-512.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump llvm | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump llvm | FileCheck %s --check-prefix=WIDE

// CHECK-LABEL: define void @{{.*}}_conv2d
// CHECK-NOT: call void @llvm.masked.store
// CHECK: store <4 x float>
// CHECK: store <2 x float>
// CHECK: store float
// CHECK-NOT: call void @llvm.masked.store

// WIDE-LABEL: define void @{{.*}}_conv2d
// WIDE: call void @llvm.masked.store.v16f32
func.func @f(%x: tensor<1x9x9x5xf32> {tessera.name = "x"}, %f: tensor<2x2x5x15xf32> {tessera.name = "f"}) -> (tensor<1x8x8x15xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x9x9x5xf32>, tensor<2x2x5x15xf32>) -> tensor<1x8x8x15xf32>
  return %y : tensor<1x8x8x15xf32>
}
