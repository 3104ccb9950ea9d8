// SPDX-License-Identifier: Apache-2.0
//
// The part of dialect `tessera` that belongs to this folder: dotted spellings of the ops of
// `tessera_sr`, which canonicalization replaces with these ops, and the type of optimizer state.
#ifndef TSR_RESILIENCE_DOTTED_TD
#define TSR_RESILIENCE_DOTTED_TD

include "compiler/resilience/resilience.td"

// ---- optimizer state -------------------------------------------------------------------------

def Tessera_OptStateType : TypeDef<Tessera_Dialect, "OptState"> {
  let mnemonic = "opt.state";
  let summary = "is optimizer state, optionally with the type of its parameter and its kind";
  let description = [{
    Examples are `!tessera.opt.state` and `!tessera.opt.state<of = tensor<4xf32>, kind = "adam_m">`. Both parts
    are optional.
  }];
  let parameters = (ins OptionalParameter<"::mlir::Type">:$of,
      OptionalParameter<"::mlir::StringAttr">:$kind);
  let assemblyFormat = "(`<` struct(params)^ `>`)?";
}

def Tessera_OptShardAttr : Tessera_Attr<"OptShard", "opt.shard"> {
  let summary = "names the mesh axis over which optimizer state is sharded";
  let parameters = (ins "::mlir::StringAttr":$axis, OptionalParameter<"::mlir::Attribute">:$mesh);
  let assemblyFormat = "`<` struct(params) `>`";
}
def Tessera_OptPartitionAttr : Tessera_Attr<"OptPartition", "opt.partition"> {
  let summary = "selects what is sharded: zero1, zero2 or zero3 (Rajbhandari et al. 2020, section 5)";
  let parameters = (ins "::mlir::StringAttr":$policy);
  let assemblyFormat = "`<` $policy `>`";
}
def Tessera_OptOffloadAttr : Tessera_Attr<"OptOffload", "opt.offload"> {
  let summary = "selects where state is offloaded between steps: host or nvme";
  let parameters = (ins "::mlir::StringAttr":$memory);
  let assemblyFormat = "`<` $memory `>`";
}

// ---- dotted ops ------------------------------------------------------------------------------

// The attribute dictionary of these two ops comes before the region.
def Tessera_ScheduleCheckpointOp : Sr_CheckpointBase<Tessera_Dialect, "schedule.checkpoint"> {
  let form = "%results... = tessera.schedule.checkpoint {[policy = string], [budget_bytes = integer]} {...} [: types]";
  let example = [{
func.func @example(%x: tensor<4xf32>) -> tensor<4xf32> {
  %result = tessera.schedule.checkpoint {policy = "full"} {
    %0 = tessera.exp %x : tensor<4xf32>
    %1 = tessera.tanh %0 : tensor<4xf32>
    tessera.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %result : tensor<4xf32>
}
  }];
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
}
def Tessera_ResilienceRegionOp : Sr_ResilienceBase<Tessera_Dialect, "resilience.region"> {
  let form = "%token, %results... = tessera.resilience.region {[mode = string], [name = string]} {...} : !tessera.res.token[, types]";
  let example = [{
func.func @example(%x: tensor<4xf32>) -> tensor<4xf32> {
  %token, %result = tessera.resilience.region {mode = "replay"} {
    %0 = tessera.exp %x : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : !tessera.res.token, tensor<4xf32>
  return %result : tensor<4xf32>
}
  }];
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
}
def Tessera_EffectsSuspendOp : Sr_RegionOp<Tessera_Dialect, "effects.suspend"> {
  let summary = "hides effects of the ops in its region from the functions around it";
  let description = [{
    The list `effects` has words of "random", "io", "memory", "state", "movement" and "collective", and may have the
    word "nondeterministic", which permits ops that a deterministic function would refuse. The ops of the region
    still run, and in the same order. Values that ops outside the region use leave it through `tessera.yield`.
  }];
  let arguments = (ins StrArrayAttr:$effects);
  let results = (outs Variadic<AnyTensor>:$results);
  let form = "%results... = tessera.effects.suspend {effects = [string, ...]} {...} [: types]";
  let example = [{
func.func @noise() -> tensor<4xf32> attributes {tessera.effects = []} {
  %result = tessera.effects.suspend {effects = ["random"]} {
    %0 = tessera.random_normal : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } : tensor<4xf32>
  return %result : tensor<4xf32>
}
  }];
  let hasCustomAssemblyFormat = 1;
}
let hasCanonicalizeMethod = 1 in {
def Tessera_ScheduleRecomputeHintOp : Sr_HintBase<Tessera_Dialect, "schedule.recompute_hint"> {
  let form = "tessera.schedule.recompute_hint {[policy = string], [budget_bytes = integer]}";
  let example = [{
func.func @example(%x: tensor<4xf32>) {
  tessera.schedule.recompute_hint {policy = "full"}
  return
}
  }];
}
def Tessera_ResilienceOnFailureOp : Sr_HandlerBase<Tessera_Dialect, "resilience.on_failure",
    "runs the handler once for each failure"> {
  let form = "tessera.resilience.on_failure(handler = @function)";
  let example = [{
func.func @restart() {
  return
}
func.func @example() {
  %token = tessera.resilience.region {
    tessera.resilience.on_failure(handler = @restart)
  } : !tessera.res.token
  return
}
  }];
}
def Tessera_ResilienceOnRecoveryOp : Sr_HandlerBase<Tessera_Dialect, "resilience.on_recovery",
    "runs the handler once for each recovery"> {
  let form = "tessera.resilience.on_recovery(handler = @function)";
  let example = [{
func.func @restart() {
  return
}
func.func @example() {
  %token = tessera.resilience.region {
    tessera.resilience.on_recovery(handler = @restart)
  } : !tessera.res.token
  return
}
  }];
}
def Tessera_SystemExportManifestOp : Sr_ManifestBase<Tessera_Dialect, "system.export_manifest"> {
  let form = "tessera.system.export_manifest {[path = string], [include = [string, ...]]}";
  let example = [{
func.func @example() {
  tessera.system.export_manifest {path = "deploy.json", include = ["mesh", "optimizer"]}
  return
}
  }];
}
def Tessera_OptimizerShardOp : Sr_ShardBase<Tessera_Dialect, "optimizer.shard"> {
  let form = "%results... = tessera.optimizer.shard %inputs... {[axis = string], [policy = string], [mesh = value]} : (types) -> types";
  let example = [{
func.func @example(%weight: tensor<4xf32>) -> tensor<4xf32> {
  %result = tessera.optimizer.shard %weight {axis = "data", policy = "zero1", mesh = "dataxmodel"} : (tensor<4xf32>) -> tensor<4xf32>
  return %result : tensor<4xf32>
}
  }];
}
def Tessera_TargetExportOp : Sr_ExportBase<Tessera_Dialect, "target.export"> {
  let form = "tessera.target.export %token : !tessera.res.token";
  let example = [{
func.func @example() {
  %token = tessera.resilience.region {name = "stage"} {
  } : !tessera.res.token
  tessera.target.export %token : !tessera.res.token
  return
}
  }];
}
def Tessera_TargetImportOp : Sr_ImportBase<Tessera_Dialect, "target.import"> {
  let form = "%token, %values... = tessera.target.import \"name\" : !tessera.res.token[, types]";
  let example = [{
func.func @example() -> tensor<4xf32> {
  %token, %values = tessera.target.import "stage" : !tessera.res.token, tensor<4xf32>
  return %values : tensor<4xf32>
}
  }];
}

def Tessera_TileGemmOp : Sr_CommonOp<Tessera_Dialect, "tile.gemm", [Pure]> {
  let form = "%result = tessera.tile.gemm %lhs, %rhs : (types) -> type";
  let example = [{
func.func @example(%lhs: tensor<4x8xbf16>, %rhs: tensor<8x2xbf16>) {
  %result = tessera.tile.gemm %lhs, %rhs : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
  return
}
  }];
  let summary = "multiplies matrices in the result's element type; canonicalizes to tessera.matmul";
  let description = [{
    The product of [M, K] and [K, N], floats of the same element type, is [M, N] of a float type. Operands with
    another element type are cast to the result's type first.
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}
def Tessera_TileReluOp : Sr_CommonOp<Tessera_Dialect, "tile.relu",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let form = "%result = tessera.tile.relu %input : (type) -> type";
  let example = [{
func.func @example(%input: tensor<4x8xf32>) {
  %result = tessera.tile.relu %input : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
  }];
  let summary = "returns max(x, 0); canonicalizes to tessera.relu";
  let description = [{
    This elementwise op takes the types that tessera.relu takes.
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}
}

#endif
