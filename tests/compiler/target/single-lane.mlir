// A masked store of one i8 or i16 lane becomes a plain one: LLVM would store 32 bits.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump llvm | FileCheck %s

// CHECK-LABEL: define void @{{.*}}_conv2d
// CHECK-NOT: call void @llvm.masked.store.v{{[0-9]+}}i16
// CHECK: store i16
// CHECK-NOT: call void @llvm.masked.store.v{{[0-9]+}}i16
func.func @f(%x: tensor<1x4x5x1xbf16> {tessera.name = "x"}, %f: tensor<2x2x1x17xbf16> {tessera.name = "f"}) -> (tensor<1x3x4x17xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.conv2d %x, %f {strides = [1, 1], padding = [0, 0, 0, 0], dilation = [1, 1]} : (tensor<1x4x5x1xbf16>, tensor<2x2x1x17xbf16>) -> tensor<1x3x4x17xbf16>
  return %y : tensor<1x3x4x17xbf16>
}
