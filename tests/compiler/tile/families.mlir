// Every kernel family (but pack: schedule/pack.mlir) becomes Tile IR and machine code for x86-64-v4, which calls nothing but the note of a fault.
// RUN: tessera-aot build %s --until tile --target cpu:x86-64-v4 --dump tile | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v4 --dump asm > %t.s
// RUN: FileCheck --check-prefix=ASM %s < %t.s
// RUN: grep -E '^[[:space:]]+call' %t.s | not grep -v tsr_set_fault
// RUN: grep -c '^k[0-9].*:$' %t.s | FileCheck --check-prefix=COUNT %s
// COUNT: 29

// CHECK-DAG: tile.func @k{{[0-9]+}}_reshape(
// CHECK-DAG: tile.func @k{{[0-9]+}}_transpose(
// CHECK-DAG: tile.func @k{{[0-9]+}}_sum(
// CHECK-DAG: tile.func @k{{[0-9]+}}_reduce_max(
// CHECK-DAG: tile.func @k{{[0-9]+}}_reduce_min(
// CHECK-DAG: tile.func @k{{[0-9]+}}_reduce_prod(
// CHECK-DAG: tile.func @k{{[0-9]+}}_argmax(
// CHECK-DAG: tile.func @k{{[0-9]+}}_matmul(
// CHECK-DAG: tile.func @k{{[0-9]+}}_attention(
// CHECK-DAG: tile.func @k{{[0-9]+}}_attention_grad(
// CHECK-DAG: tile.func @k{{[0-9]+}}_conv2d(
// CHECK-DAG: tile.func @k{{[0-9]+}}_conv2d_grad_input(
// CHECK-DAG: tile.func @k{{[0-9]+}}_conv2d_grad_filter(
// CHECK-DAG: tile.func @k{{[0-9]+}}_cross_entropy(
// CHECK-DAG: tile.func @k{{[0-9]+}}_cross_entropy_grad(
// CHECK-DAG: tile.func @k{{[0-9]+}}_slice(
// CHECK-DAG: tile.func @k{{[0-9]+}}_pad(
// CHECK-DAG: tile.func @k{{[0-9]+}}_concat(
// CHECK-DAG: tile.func @k{{[0-9]+}}_gather(
// CHECK-DAG: tile.func @k{{[0-9]+}}_scatter_add(
// CHECK-DAG: tile.func @k{{[0-9]+}}_cumsum(
// CHECK-DAG: tile.func @k{{[0-9]+}}_sort(
// CHECK-DAG: tile.func @k{{[0-9]+}}_top_k(
// CHECK-DAG: tile.func @k{{[0-9]+}}_max_pool2d(
// CHECK-DAG: tile.func @k{{[0-9]+}}_avg_pool2d(
// CHECK-DAG: tile.func @k{{[0-9]+}}_max_pool2d_grad(
// CHECK-DAG: tile.func @k{{[0-9]+}}_avg_pool2d_grad(
// CHECK-DAG: tile.func @k{{[0-9]+}}_gelu(

// The rows of a softmax: the next one is read ahead; an element minus the largest is below 40.
// CHECK-DAG: tile.func @k{{[0-9]+}}_reduce_max_{{[a-z_0-9]+}}(
// CHECK-DAG: math.exp %{{.*}} {tile.shifted} : vector<{{[0-9]+}}xf32>
// ASM-LABEL: {{^}}k{{[0-9]+}}_reduce_max_{{.*}}:
// ASM-DAG: prefetcht1
// ASM-DAG: vpslld $23, %zmm{{[0-9]+}}
// ASM-LABEL: {{^}}k{{[0-9]+}}_cross_entropy:

func.func @moves(%x: tensor<64x48xf32> {tessera.name = "x"}, %i: tensor<8xi64> {tessera.name = "i"}, %u: tensor<8x48xf32> {tessera.name = "u"})
    -> (tensor<3072xf32> {tessera.name = "a"},
        tensor<48x64xf32> {tessera.name = "b"},
        tensor<7x48xf32> {tessera.name = "c"},
        tensor<66x48xf32> {tessera.name = "d"},
        tensor<128x48xf32> {tessera.name = "e"},
        tensor<8x48xf32> {tessera.name = "f"},
        tensor<64x48xf32> {tessera.name = "g"},
        tensor<64x48xf32> {tessera.name = "h"},
        tensor<64x48xf32> {tessera.name = "j"},
        tensor<64x48xi64> {tessera.name = "k"},
        tensor<64x48xf32> {tessera.name = "m"},
        tensor<64x3xf32> {tessera.name = "n"},
        tensor<64x3xi64> {tessera.name = "o"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.reshape %x : tensor<64x48xf32> -> tensor<3072xf32>
  %b = tessera.transpose %x {permutation = [1, 0]} : tensor<64x48xf32> -> tensor<48x64xf32>
  %c = tessera.slice %x {start = [2, 0], size = [7, 48]} : tensor<64x48xf32> -> tensor<7x48xf32>
  %d = tessera.pad %x {low = [1, 0], high = [1, 0]} : tensor<64x48xf32> -> tensor<66x48xf32>
  %e = tessera.concat %x, %x {axis = 0 : i64} : tensor<64x48xf32> -> tensor<128x48xf32>
  %f = tessera.gather %x, %i {axis = 0 : i64} : (tensor<64x48xf32>, tensor<8xi64>) -> tensor<8x48xf32>
  %g = tessera.scatter_add %x, %i, %u {axis = 0 : i64} : (tensor<64x48xf32>, tensor<8xi64>, tensor<8x48xf32>)
  %h = tessera.cumsum %x {axis = 1 : i64} : tensor<64x48xf32>
  %j:2 = tessera.sort %x {axis = 1 : i64} : tensor<64x48xf32> -> (tensor<64x48xf32>, tensor<64x48xi64>)
  %m = tessera.gelu %x : tensor<64x48xf32>
  %n:2 = tessera.top_k %x {axis = 1 : i64, k = 3 : i64} : tensor<64x48xf32> -> (tensor<64x3xf32>, tensor<64x3xi64>)
  return %a, %b, %c, %d, %e, %f, %g, %h, %j#0, %j#1, %m, %n#0, %n#1
      : tensor<3072xf32>,
        tensor<48x64xf32>,
        tensor<7x48xf32>,
        tensor<66x48xf32>,
        tensor<128x48xf32>,
        tensor<8x48xf32>,
        tensor<64x48xf32>,
        tensor<64x48xf32>,
        tensor<64x48xf32>,
        tensor<64x48xi64>,
        tensor<64x48xf32>,
        tensor<64x3xf32>,
        tensor<64x3xi64>
}

func.func @reductions(%x: tensor<64x48xf32> {tessera.name = "x"}, %y: tensor<1024x512xf32> {tessera.name = "y"}, %l: tensor<64xi64> {tessera.name = "l"}, %w: tensor<64xf32> {tessera.name = "w"})
    -> (tensor<64xf32> {tessera.name = "a"},
        tensor<48xf32> {tessera.name = "b"},
        tensor<f32> {tessera.name = "c"},
        tensor<48xf32> {tessera.name = "d"},
        tensor<64xi64> {tessera.name = "e"},
        tensor<1024x512xf32> {tessera.name = "f"},
        tensor<64xf32> {tessera.name = "g"},
        tensor<64x48xf32> {tessera.name = "h"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.sum %x {axes = [1]} : tensor<64x48xf32> -> tensor<64xf32>
  %b = tessera.reduce_max %x {axes = [0]} : tensor<64x48xf32> -> tensor<48xf32>
  %c = tessera.reduce_min %x {axes = [0, 1]} : tensor<64x48xf32> -> tensor<f32>
  %d = tessera.reduce_prod %x {axes = [0]} : tensor<64x48xf32> -> tensor<48xf32>
  %e = tessera.argmax %x {axis = 1 : i64} : tensor<64x48xf32> -> tensor<64xi64>
  %f = tessera.softmax_safe %y {axis = 1 : i64} : tensor<1024x512xf32>
  %g = tessera.cross_entropy %x, %l : (tensor<64x48xf32>, tensor<64xi64>) -> tensor<64xf32>
  %h = tessera.cross_entropy_grad %x, %l, %w : (tensor<64x48xf32>, tensor<64xi64>, tensor<64xf32>) -> tensor<64x48xf32>
  return %a, %b, %c, %d, %e, %f, %g, %h
      : tensor<64xf32>,
        tensor<48xf32>,
        tensor<f32>,
        tensor<48xf32>,
        tensor<64xi64>,
        tensor<1024x512xf32>,
        tensor<64xf32>,
        tensor<64x48xf32>
}

func.func @products(%x: tensor<64x48xf32> {tessera.name = "x"}, %y: tensor<48x96xf32> {tessera.name = "y"}, %q: tensor<2x4x32x16xf32> {tessera.name = "q"}, %o: tensor<2x4x32x16xf32> {tessera.name = "o"}, %s: tensor<2x4x32xf32> {tessera.name = "s"}, %m: tensor<2x8x8x16xf32> {tessera.name = "m"}, %k: tensor<3x3x16x32xf32> {tessera.name = "k"}, %r: tensor<2x8x8x32xf32> {tessera.name = "r"})
    -> (tensor<64x96xf32> {tessera.name = "a"},
        tensor<2x4x32x16xf32> {tessera.name = "b"},
        tensor<2x4x32xf32> {tessera.name = "c"},
        tensor<2x4x32x16xf32> {tessera.name = "d"},
        tensor<2x4x32x16xf32> {tessera.name = "e"},
        tensor<2x4x32x16xf32> {tessera.name = "f"},
        tensor<2x8x8x32xf32> {tessera.name = "g"},
        tensor<2x8x8x16xf32> {tessera.name = "h"},
        tensor<3x3x16x32xf32> {tessera.name = "i"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.matmul %x, %y : (tensor<64x48xf32>, tensor<48x96xf32>) -> tensor<64x96xf32>
  %b:2 = tessera.attention %q, %q, %q {causal} : tensor<2x4x32x16xf32> -> (tensor<2x4x32x16xf32>, tensor<2x4x32xf32>)
  %d:3 = tessera.attention_grad %q, %q, %q, %o, %s, %q {causal} : (tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32xf32>, tensor<2x4x32x16xf32>) -> (tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
  %g = tessera.conv2d %m, %k {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]} : (tensor<2x8x8x16xf32>, tensor<3x3x16x32xf32>) -> tensor<2x8x8x32xf32>
  %h = tessera.conv2d_grad_input %k, %r {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]} : (tensor<3x3x16x32xf32>, tensor<2x8x8x32xf32>) -> tensor<2x8x8x16xf32>
  %i = tessera.conv2d_grad_filter %m, %r {strides = [1, 1], padding = [1, 1, 1, 1], dilation = [1, 1]} : (tensor<2x8x8x16xf32>, tensor<2x8x8x32xf32>) -> tensor<3x3x16x32xf32>
  return %a, %b#0, %b#1, %d#0, %d#1, %d#2, %g, %h, %i
      : tensor<64x96xf32>,
        tensor<2x4x32x16xf32>,
        tensor<2x4x32xf32>,
        tensor<2x4x32x16xf32>,
        tensor<2x4x32x16xf32>,
        tensor<2x4x32x16xf32>,
        tensor<2x8x8x32xf32>,
        tensor<2x8x8x16xf32>,
        tensor<3x3x16x32xf32>
}

func.func @pools(%x: tensor<1x8x8x4xf32> {tessera.name = "x"}, %g: tensor<1x4x4x4xf32> {tessera.name = "g"})
    -> (tensor<1x4x4x4xf32> {tessera.name = "a"},
        tensor<1x4x4x4xf32> {tessera.name = "b"},
        tensor<1x8x8x4xf32> {tessera.name = "c"},
        tensor<1x8x8x4xf32> {tessera.name = "d"})
    attributes {tessera.entry = "infer"} {
  %a = tessera.max_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<1x8x8x4xf32> -> tensor<1x4x4x4xf32>
  %b = tessera.avg_pool2d %x {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<1x8x8x4xf32> -> tensor<1x4x4x4xf32>
  %c = tessera.max_pool2d_grad %x, %g {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : (tensor<1x8x8x4xf32>, tensor<1x4x4x4xf32>)
  %d = tessera.avg_pool2d_grad %g {window = [2, 2], strides = [2, 2], padding = [0, 0, 0, 0]} : tensor<1x4x4x4xf32> -> tensor<1x8x8x4xf32>
  return %a, %b, %c, %d : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>, tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>
}
