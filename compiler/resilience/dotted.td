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
  let parameters = (ins "::mlir::StringAttr":$place);
  let assemblyFormat = "`<` $place `>`";
}

// ---- dotted ops ------------------------------------------------------------------------------

// The attribute dictionary of these two ops comes before the region.
def Tessera_ScheduleCheckpointOp : Sr_CheckpointBase<Tessera_Dialect, "schedule.checkpoint"> {
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
}
def Tessera_ResilienceRegionOp : Sr_ResilienceBase<Tessera_Dialect, "resilience.region"> {
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
}
let hasCanonicalizeMethod = 1 in {
def Tessera_ScheduleRecomputeHintOp : Sr_HintBase<Tessera_Dialect, "schedule.recompute_hint">;
def Tessera_ResilienceOnFailureOp : Sr_HandlerBase<Tessera_Dialect, "resilience.on_failure",
    "runs the handler once for each failure">;
def Tessera_ResilienceOnRecoveryOp : Sr_HandlerBase<Tessera_Dialect, "resilience.on_recovery",
    "runs the handler once for each recovery">;
def Tessera_SystemExportManifestOp : Sr_ManifestBase<Tessera_Dialect, "system.export_manifest">;
def Tessera_OptimizerShardOp : Sr_ShardBase<Tessera_Dialect, "optimizer.shard">;
def Tessera_TargetExportOp : Sr_ExportBase<Tessera_Dialect, "target.export">;
def Tessera_TargetImportOp : Sr_ImportBase<Tessera_Dialect, "target.import">;

def Tessera_TileGemmOp : Sr_CommonOp<Tessera_Dialect, "tile.gemm", [Pure]> {
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
