// SPDX-License-Identifier: Apache-2.0
// Factors of products on matrix units that a kernel makes and kernels read get a pitch of whole lines of 128 bytes; what anything else sees stays dense.
// RUN: tessera-aot build %s --until program --target cuda:sm_90a,cuda:sm_80,cpu:x86-64-v3 --numerics native --dump tile,program > %t.native
// RUN: FileCheck %s --input-file=%t.native
// RUN: FileCheck %s --check-prefix=PROGRAM --input-file=%t.native
// RUN: tessera-aot build %s --until program --target cuda:sm_90a,cpu:x86-64-v3 --ptxas %S/inputs/ptxas-none --dump tile,program | FileCheck %s --check-prefix=PORTABLE
// The program is the same from each level on.
// RUN: rm -rf %t.levels && tessera-aot build %s --until program --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile,target,program --dump-dir %t.levels
// RUN: tessera-aot build %t.levels/tile.sm_90a.mlir --from tile --until program --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump program --dump-dir %t.tile
// RUN: tessera-aot build %t.levels/target.sm_90a.mlir --from target --until program --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump program --dump-dir %t.target
// RUN: sed 's/    [^ ]*:[0-9:]*$//' %t.levels/program.sm_90a.txt > %t.a && sed 's/    [^ ]*:[0-9:]*$//' %t.tile/program.sm_90a.txt > %t.b && sed 's/    [^ ]*:[0-9:]*$//' %t.target/program.sm_90a.txt > %t.c
// RUN: diff %t.a %t.b && diff %t.a %t.c
// PORTABLE-NOT: strided<

// CHECK: ---- tile cuda:sm_90a
// CHECK-LABEL: func.func @chain
// CHECK: %0 = tsched.call @[[FIRST:.*]](%arg0, %arg1) : ({{.*}}) -> tensor<2048x776xbf16>
// CHECK: tsched.call @[[SECOND:.*]](%0, %arg2)
// A product whose result leaves the entry, and one whose result is a factor, are one group no more.
// CHECK-LABEL: func.func @clones
// CHECK: tsched.call @[[TWIN:.*]](%arg0, %arg1)
// CHECK: tsched.call @[[TWIN]]_pitched(%arg0, %arg2)
// What an argmax reads, and what is so narrow that its rows would be much longer.
// CHECK-LABEL: func.func @dense
// CHECK: %0 = tsched.call @[[READ:.*]](%arg0, %arg1)
// CHECK: %[[N:.*]] = tsched.call @[[NARROW:.*]](%arg0, %arg3)
// CHECK: tsched.call @{{.*}}(%[[N]], %arg4)
// CHECK-LABEL: func.func @batch
// CHECK: %[[H:.*]] = tsched.call @[[MERGED:.*]](%arg0, %arg1) : ({{.*}}) -> tensor<3x200x776xbf16>
// CHECK: tsched.call @[[SIDES:.*]](%[[H]]) : (tensor<3x200x776xbf16>)
// A reshape that keeps rows is a view.
// CHECK-LABEL: func.func @reshaped
// CHECK: tessera.reshape
// CHECK: tsched.call @[[RESHAPED:.*]](%
// Rows of elements of 4 bytes that no copy engine takes without; both factors are transposed or made so.
// CHECK-LABEL: func.func @transpose
// CHECK: %[[T:.*]] = tsched.call @[[TRANSPOSE:.*_rhs]](%arg2)
// CHECK: tsched.call @[[TF32:.*]](%{{.*}}, %[[T]])
// CHECK-LABEL: func.func @prepacked
// CHECK: tsched.call @[[HOISTED:.*hoisted]](
// An elementwise kernel reads one and writes one; a norm writes one, and sums of rows read it.
// CHECK-LABEL: func.func @between
// CHECK: tsched.call @[[MAP:.*mul.*]](%0, %{{.*}}) : (tensor<2048x776xbf16>, tensor<2048x1xf32>) -> tensor<2048x776xbf16>
// CHECK-LABEL: func.func @norm
// CHECK: %{{.*}}:2 = tsched.call @[[NORM:.*sum.*]](%0,

// CHECK: tile.func @[[FIRST]](%arg0: memref<2048x512xbf16>, %arg1: memref<512x776xbf16>, %arg2: memref<2048x776xbf16, strided<[832, 1]>>)
// CHECK: tile.store_fragment %{{.*}}, %arg2[{{.*}}] through
// CHECK: tile.func @[[SECOND]](%arg0: memref<2048x776xbf16, strided<[832, 1]>>, %arg1: memref<776x512xbf16>, %arg2: memref<2048x512xbf16>)
// CHECK: tile.func @[[TWIN]]({{.*}}, %arg2: memref<2048x1000xbf16>)
// CHECK: tile.func @[[TWIN]]_pitched({{.*}}, %arg2: memref<2048x1000xbf16, strided<[1024, 1]>>)
// CHECK: tile.func @[[READ]]({{.*}}, %arg2: memref<2048x776xbf16>)
// CHECK: tile.func @[[NARROW]]({{.*}}, %arg2: memref<2048x40xbf16>)
// Rows of all matrices follow each other at the pitch: they are still one matrix.
// CHECK: tile.func @[[MERGED]]({{.*}}, %arg2: memref<3x200x776xbf16, strided<[166400, 832, 1]>>)
// CHECK: tile.view %arg2 : memref<3x200x776xbf16, strided<[166400, 832, 1]>> -> memref<600x776xbf16, strided<[832, 1]>>
// CHECK: tile.func @[[SIDES]](%arg0: memref<3x200x776xbf16, strided<[166400, 832, 1]>>,
// CHECK: tile.func @[[RESHAPED]](%arg0: memref<4x512x1000xbf16, strided<[524288, 1024, 1]>>,
// CHECK: tile.func @[[TRANSPOSE]](%arg0: memref<1001x768xf32>, %arg1: memref<768x1001xf32, strided<[1024, 1]>>)
// CHECK: tile.func @[[TF32]](%arg0: memref<4096x1001xf32, strided<[1024, 1]>>, %arg1: memref<768x1001xf32, strided<[1024, 1]>>,
// CHECK: tile.func @[[HOISTED]](%arg0: memref<512x1000xf32>, %arg1: memref<512x1000xbf16, strided<[1024, 1]>>) {{.*}}prepacks
// CHECK: tile.func @[[MAP]](%arg0: memref<2048x776xbf16, strided<[832, 1]>>, %arg1: memref<2048x1xf32>, %arg2: memref<2048x776xbf16, strided<[832, 1]>>)
// CHECK: tile.func @[[NORM]](%arg0: memref<4096x776xbf16>, {{.*}}memref<4096x776xbf16, strided<[832, 1]>>
// CHECK: ---- tile cuda:sm_80
// CHECK: tile.func @[[FIRST]]({{.*}}, %arg2: memref<2048x776xbf16, strided<[832, 1]>>)
// CHECK: ---- tile cpu:x86-64-v3
// CHECK-NOT: strided<

// Buffers are as much larger, and begin at lines.
// PROGRAM: ---- program cuda:sm_90a
// PROGRAM: entry @batch {{.*}}: workspace 998400 bytes
// PROGRAM: workspace +0 : 3x200x832xbf16
// PROGRAM: entry @chain {{.*}}: workspace 3407872 bytes
// PROGRAM: workspace +0 : 2048x832xbf16
// PROGRAM: entry @dense
// PROGRAM: workspace +{{.*}} : 2048x776xbf16
// PROGRAM: entry @prepacked
// PROGRAM: prepacked {{.*}} : 512x1024xbf16
// PROGRAM: entry @reshaped {{.*}}: workspace 4194304 bytes
// PROGRAM: workspace +0 : 2048x1024xbf16
// PROGRAM: workspace +0 : 4x512x1024xbf16
// PROGRAM: ---- program cuda:sm_80
// PROGRAM: ---- program cpu:x86-64-v3
// PROGRAM-NOT: 2048x832xbf16
func.func @chain(%x: tensor<2048x512xbf16> {tessera.name = "ax"}, %v: tensor<512x776xbf16> {tessera.name = "av"}, %w: tensor<776x512xbf16> {tessera.name = "aw"})
    -> (tensor<2048x512xbf16> {tessera.name = "ay"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<2048x512xbf16>, tensor<512x776xbf16>) -> tensor<2048x776xbf16>
  %h = tessera.gelu %p {approximate = "tanh"} : tensor<2048x776xbf16>
  %y = tessera.matmul %h, %w : (tensor<2048x776xbf16>, tensor<776x512xbf16>) -> tensor<2048x512xbf16>
  return %y : tensor<2048x512xbf16>
}
func.func @clones(%x: tensor<2048x512xbf16> {tessera.name = "tx"}, %u: tensor<512x1000xbf16> {tessera.name = "tu"}, %v: tensor<512x1000xbf16> {tessera.name = "tv"}, %w: tensor<1000x512xbf16> {tessera.name = "tw"})
    -> (tensor<2048x1000xbf16> {tessera.name = "ta"}, tensor<2048x512xbf16> {tessera.name = "ty"}) attributes {tessera.entry = "infer"} {
  %a = tessera.matmul %x, %u : (tensor<2048x512xbf16>, tensor<512x1000xbf16>) -> tensor<2048x1000xbf16>
  %b = tessera.matmul %x, %v : (tensor<2048x512xbf16>, tensor<512x1000xbf16>) -> tensor<2048x1000xbf16>
  %y = tessera.matmul %b, %w : (tensor<2048x1000xbf16>, tensor<1000x512xbf16>) -> tensor<2048x512xbf16>
  return %a, %y : tensor<2048x1000xbf16>, tensor<2048x512xbf16>
}
func.func @dense(%x: tensor<2048x640xbf16> {tessera.name = "zx"}, %v: tensor<640x776xbf16> {tessera.name = "zv"}, %w: tensor<776x512xbf16> {tessera.name = "zw"}, %n: tensor<640x40xbf16> {tessera.name = "zn"},
                 %o: tensor<40x512xbf16> {tessera.name = "zo"})
    -> (tensor<2048x512xbf16> {tessera.name = "zy"}, tensor<2048xi64> {tessera.name = "zz"}, tensor<2048x512xbf16> {tessera.name = "zp"}) attributes {tessera.entry = "infer"} {
  %b = tessera.matmul %x, %v : (tensor<2048x640xbf16>, tensor<640x776xbf16>) -> tensor<2048x776xbf16>
  %y = tessera.matmul %b, %w : (tensor<2048x776xbf16>, tensor<776x512xbf16>) -> tensor<2048x512xbf16>
  %z = tessera.argmax %b {axis = 1 : i64} : tensor<2048x776xbf16> -> tensor<2048xi64>
  %c = tessera.matmul %x, %n : (tensor<2048x640xbf16>, tensor<640x40xbf16>) -> tensor<2048x40xbf16>
  %p = tessera.matmul %c, %o : (tensor<2048x40xbf16>, tensor<40x512xbf16>) -> tensor<2048x512xbf16>
  return %y, %z, %p : tensor<2048x512xbf16>, tensor<2048xi64>, tensor<2048x512xbf16>
}
func.func @batch(%x: tensor<3x200x96xbf16> {tessera.name = "bx"}, %v: tensor<96x776xbf16> {tessera.name = "bv"})
    -> (tensor<3x200x200xbf16> {tessera.name = "bz"}) attributes {tessera.entry = "infer"} {
  %h = tessera.matmul %x, %v : (tensor<3x200x96xbf16>, tensor<96x776xbf16>) -> tensor<3x200x776xbf16>
  %z = tessera.matmul %h, %h {transpose_b = true} : tensor<3x200x776xbf16> -> tensor<3x200x200xbf16>
  return %z : tensor<3x200x200xbf16>
}
func.func @reshaped(%x: tensor<2048x512xbf16> {tessera.name = "rx"}, %v: tensor<512x1000xbf16> {tessera.name = "rv"}, %w: tensor<4x1000x512xbf16> {tessera.name = "rw"})
    -> (tensor<4x512x512xbf16> {tessera.name = "ry"}) attributes {tessera.entry = "infer"} {
  %b = tessera.matmul %x, %v : (tensor<2048x512xbf16>, tensor<512x1000xbf16>) -> tensor<2048x1000xbf16>
  %c = tessera.reshape %b : tensor<2048x1000xbf16> -> tensor<4x512x1000xbf16>
  %y = tessera.matmul %c, %w : (tensor<4x512x1000xbf16>, tensor<4x1000x512xbf16>) -> tensor<4x512x512xbf16>
  return %y : tensor<4x512x512xbf16>
}
func.func @transpose(%x: tensor<4096x512xf32> {tessera.name = "fx"}, %v: tensor<512x1001xf32> {tessera.name = "fv"}, %w: tensor<1001x768xf32> {tessera.name = "fw"})
    -> (tensor<4096x768xf32> {tessera.name = "fy"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v {allow_tf32} : (tensor<4096x512xf32>, tensor<512x1001xf32>) -> tensor<4096x1001xf32>
  %h = tessera.relu %p : tensor<4096x1001xf32>
  %y = tessera.matmul %h, %w {allow_tf32} : (tensor<4096x1001xf32>, tensor<1001x768xf32>) -> tensor<4096x768xf32>
  return %y : tensor<4096x768xf32>
}
func.func @prepacked(%x: tensor<2048x512xbf16> {tessera.name = "px"}) -> (tensor<2048x1000xbf16> {tessera.name = "py"}) attributes {tessera.entry = "infer"} {
  %v = tessera.param "v" init = #tessera.uniform<-1.0, 1.0> : tensor<512x1000xf32>
  %a = tessera.cast %v : tensor<512x1000xf32> -> tensor<512x1000xbf16>
  %y = tessera.matmul %x, %a : (tensor<2048x512xbf16>, tensor<512x1000xbf16>) -> tensor<2048x1000xbf16>
  return %y : tensor<2048x1000xbf16>
}
func.func @between(%x: tensor<2048x384xbf16> {tessera.name = "ex"}, %v: tensor<384x776xbf16> {tessera.name = "ev"}, %w: tensor<776x512xbf16> {tessera.name = "ew"})
    -> (tensor<2048x512xbf16> {tessera.name = "ey"}, tensor<2048x512xbf16> {tessera.name = "ez"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<2048x384xbf16>, tensor<384x776xbf16>) -> tensor<2048x776xbf16>
  %y = tessera.matmul %p, %w : (tensor<2048x776xbf16>, tensor<776x512xbf16>) -> tensor<2048x512xbf16>
  %s = tessera.reduce_max %y {axes = [1]} : tensor<2048x512xbf16> -> tensor<2048xbf16>
  %c = tessera.reshape %s : tensor<2048xbf16> -> tensor<2048x1xbf16>
  %h = tessera.mul %p, %c : (tensor<2048x776xbf16>, tensor<2048x1xbf16>) -> tensor<2048x776xbf16>
  %z = tessera.matmul %h, %w : (tensor<2048x776xbf16>, tensor<776x512xbf16>) -> tensor<2048x512xbf16>
  return %y, %z : tensor<2048x512xbf16>, tensor<2048x512xbf16>
}
func.func @norm(%x: tensor<4096x512xbf16> {tessera.name = "nx"}, %v: tensor<512x776xbf16> {tessera.name = "nv"}, %s: tensor<776xbf16> {tessera.name = "ns"}, %b: tensor<776xbf16> {tessera.name = "nb"},
                %w: tensor<776x512xbf16> {tessera.name = "nw"})
    -> (tensor<4096x512xbf16> {tessera.name = "ny"}, tensor<776xf32> {tessera.name = "nz"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<4096x512xbf16>, tensor<512x776xbf16>) -> tensor<4096x776xbf16>
  %h = tessera.layernorm_safe %p, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<4096x776xbf16>, tensor<776xbf16>, tensor<776xbf16>) -> tensor<4096x776xbf16>
  %y = tessera.matmul %h, %w : (tensor<4096x776xbf16>, tensor<776x512xbf16>) -> tensor<4096x512xbf16>
  %f = tessera.cast %h : tensor<4096x776xbf16> -> tensor<4096x776xf32>
  %z = tessera.sum %f {axes = [0]} : tensor<4096x776xf32> -> tensor<776xf32>
  return %y, %z : tensor<4096x512xbf16>, tensor<776xf32>
}
