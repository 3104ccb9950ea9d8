// SPDX-License-Identifier: Apache-2.0
// Each spelling prints as itself; the dictionary is optional wherever there is one.
// RUN: tessera-opt %s >%t.1 && FileCheck %s <%t.1
// RUN: tessera-opt %t.1 | diff %t.1 -
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | diff %t.1 -
// RUN: tessera-opt -canonicalize %s | FileCheck %s --check-prefix=CANON

func.func private @handler()

// CHECK-LABEL: func.func @types
// CHECK-SAME: !tessera.opt.state, {{.*}}!tessera.opt.state<of = tensor<4xf32>, kind = "adam_m">, {{.*}}!tessera.opt.state<kind = "momentum">, {{.*}}!tessera_sr.token, {{.*}}!tessera_sr.token
func.func @types(%a: !tessera.opt.state, %b: !tessera.opt.state<of = tensor<4xf32>, kind = "adam_m">,
                 %c: !tessera.opt.state<kind = "momentum">, %d: !tessera.res.token, %e: !tessera_sr.token)
    attributes {a = #tessera.opt.shard<axis = "data", mesh = "dataxmodel">,
                b = #tessera.opt.shard<axis = "data", mesh = ["data", "model"]>,
                c = #tessera.opt.shard<axis = "data">,
                d = #tessera.opt.partition<"zero1">, e = #tessera.opt.offload<"host">} {
  // CHECK: a = #tessera.opt.shard<axis = "data", mesh = "dataxmodel">
  // CHECK-SAME: b = #tessera.opt.shard<axis = "data", mesh = ["data", "model"]>
  // CHECK-SAME: c = #tessera.opt.shard<axis = "data">
  // CHECK-SAME: d = #tessera.opt.partition<"zero1">
  // CHECK-SAME: e = #tessera.opt.offload<"host">
  return
}

// CHECK-LABEL: func.func @regions
// CANON-LABEL: func.func @regions
func.func @regions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: tessera.schedule.checkpoint {
  // CHECK: tessera.yield
  // CHECK: } : tensor<4xf32>
  // CANON: %[[A:.*]] = tessera_sr.checkpoint {
  // CANON: } : tensor<4xf32>
  %a = tessera.schedule.checkpoint {
    // A comment { with a brace
    %0 = tessera.exp %x : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  // CHECK: tessera.schedule.checkpoint {budget_bytes = 64 : i64} {
  %b = tessera.schedule.checkpoint {budget_bytes = 64} {
    %0 = tessera.exp %a : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  // CHECK: tessera.schedule.checkpoint {
  tessera.schedule.checkpoint {} {}
  // CHECK: tessera.schedule.checkpoint {mark} {
  tessera.schedule.checkpoint {mark} {}
  tessera.schedule.checkpoint {"quoted \" name" = 1} {}
  // CHECK: tessera.resilience.region {
  // CHECK-NEXT: tessera.schedule.recompute_hint
  // CANON: tessera_sr.resilience_region {
  // CANON-NEXT: tessera_sr.recompute_hint
  %t = tessera.resilience.region {
    tessera.schedule.recompute_hint
  } : !tessera.res.token
  // CHECK: %{{.*}}, %{{.*}} = tessera_sr.resilience_region {
  %u, %c = tessera_sr.resilience_region {
    // CHECK: tessera.resilience.on_failure(handler = @handler)
    // CHECK: tessera.resilience.on_recovery(handler = @handler)
    // CANON: tessera_sr.on_failure(handler = @handler)
    // CANON: tessera_sr.on_recovery(handler = @handler)
    tessera.resilience.on_failure(handler = @handler)
    tessera.resilience.on_recovery(handler = @handler)
    %0 = tessera.exp %b : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  // CHECK: } {mode = "restart", name = "step"} : !tessera_sr.token, tensor<4xf32>
  } {mode = "restart", name = "step"} : !tessera_sr.token, tensor<4xf32>
  tessera_sr.on_failure(handler = @handler)
  tessera_sr.on_recovery(handler = @handler)
  tessera_sr.recompute_hint {policy = "none"}
  // CHECK: tessera.system.export_manifest{{$}}
  tessera.system.export_manifest
  tessera_sr.export_manifest
  // CHECK: tessera_sr.export
  tessera_sr.export %u : !tessera_sr.token
  // CANON: tessera_sr.export
  // CANON: tessera_sr.export
  tessera.target.export %t : !tessera_sr.token
  return %a, %c : tensor<4xf32>, tensor<4xf32>
}

// CANON-LABEL: func.func @products
func.func @products(%a: tensor<2x3xf16>, %b: tensor<3x4xf16>, %c: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  // CHECK: tessera.tile.gemm %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
  // CANON: %[[X:.*]] = tessera.cast %{{.*}} : tensor<2x3xf16> -> tensor<2x3xf32>
  // CANON: %[[Y:.*]] = tessera.cast %{{.*}} : tensor<3x4xf16> -> tensor<3x4xf32>
  // CANON: tessera.matmul %[[X]], %[[Y]] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %0 = "tessera.tile.gemm"(%a, %b) : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
  // CANON: tessera.relu
  %1 = "tessera.tile.relu"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CANON: tessera.matmul
  %2 = tessera.tile.gemm %1, %c : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func.func @shards
func.func @shards(%p: tensor<4xf32>, %m: !tessera.opt.state) {
  // CHECK: tessera_sr.optimizer_shard %{{.*}} {axis = "data", policy = "zero1"} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = tessera_sr.optimizer_shard %p {axis = "data", policy = "zero1"} : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = tessera.optimizer.shard %p, %m {shard = #tessera.opt.shard<axis = "data", mesh = "dataxmodel">, partition = #tessera.opt.partition<"zero3">, mesh = "dataxmodel"} : (tensor<4xf32>, !tessera.opt.state) -> (tensor<4xf32>, !tessera.opt.state)
  return
}

// CHECK-LABEL: func.func @squares
func.func @squares(%g: tensor<3x5xf64>) -> tensor<4xf64> {
  // CHECK: tessera_sr.squares %{{.*}} : tensor<3x5xf64> -> tensor<4xf64>
  %0 = tessera_sr.squares %g : tensor<3x5xf64> -> tensor<4xf64>
  // CHECK: tessera_sr.squares %{{.*}} {scale = 1.250000e-01 : f64} : tensor<3x5xf64> -> tensor<4xf64>
  %1 = tessera_sr.squares %g {scale = 0.125} : tensor<3x5xf64> -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
