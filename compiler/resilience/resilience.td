// SPDX-License-Identifier: Apache-2.0
//
// Dialect `tessera_sr`: a program's requests for recomputation, recovery, sharded optimizer state and
// a deployment manifest, and the ops that the passes of this folder create. The rules are in rules.c.
#ifndef TSR_RESILIENCE_TD
#define TSR_RESILIENCE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Sr_Dialect : Dialect {
  let name = "tessera_sr";
  let cppNamespace = "::tessera::sr";
  let useDefaultTypePrinterParser = 1;
}

def Sr_TokenType : TypeDef<Sr_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "orders an export before an import across a restart; !tessera.res.token is the same type";
}

// ---- requests; the dotted spellings of dialect tessera have the same attributes --------------

defvar checkpointAttrs = (ins OptionalAttr<StrAttr>:$policy, OptionalAttr<I64Attr>:$budget_bytes);
defvar regionAttrs = (ins OptionalAttr<StrAttr>:$mode, OptionalAttr<StrAttr>:$name);
defvar manifestAttrs = (ins OptionalAttr<StrAttr>:$path, OptionalAttr<StrArrayAttr>:$include);
defvar shardAttrs = (ins OptionalAttr<StrAttr>:$axis, OptionalAttr<StrAttr>:$policy,
    OptionalAttr<AnyAttr>:$mesh, OptionalAttr<AnyAttr>:$shard, OptionalAttr<AnyAttr>:$partition,
    OptionalAttr<AnyAttr>:$offload);

class Sr_CommonOp<Dialect of, string mnemonic, list<Trait> traits = []>
    : Op<of, mnemonic, traits> {
  let hasVerifier = 1;
  string form = ?; // for docs/language.md, as in graph.td
  string example = "";
}

class Sr_RegionOp<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic, [SingleBlock, NoTerminator]> {
  let regions = (region AnyRegion:$body);
}

class Sr_CheckpointBase<Dialect of, string mnemonic> : Sr_RegionOp<of, mnemonic> {
  let summary = "marks a segment whose values the backward pass may recompute";
  let description = [{
    `policy` is "full", "selective" or "none"; the default is "selective". With "full" the program only saves
    the values that the segment reads. With "selective" it recomputes values that need many bytes but few
    operations, and saves the others. With `budget_bytes`, "selective" recomputes more values, until the saved
    values of the segment fit into that many bytes. Values that ops outside the segment use leave it through
    `tessera.yield`.
  }];
  let arguments = checkpointAttrs;
  let results = (outs Variadic<AnyTensor>:$results);
}

class Sr_HintBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "lets tessera-insert-recompute choose the segments of this function";
  let description = [{
    This op belongs in a function without marked checkpoints. `policy` and `budget_bytes` are those of
    tessera_sr.checkpoint.
  }];
  let arguments = checkpointAttrs;
  let assemblyFormat = "attr-dict";
}

class Sr_ResilienceBase<Dialect of, string mnemonic> : Sr_RegionOp<of, mnemonic> {
  let summary = "marks a critical stage, which runs completely or is repeated";
  let description = [{
    With `mode` "replay" the stage runs again from its beginning, in the same process. With "restart", the
    default, the run continues from the last exported token. Values that ops outside the region use leave it
    through `tessera.yield`.
  }];
  let arguments = regionAttrs;
  let results = (outs Sr_TokenType:$token, Variadic<AnyTensor>:$results);
}

class Sr_HandlerBase<Dialect of, string mnemonic, string what> : Sr_CommonOp<of, mnemonic> {
  let summary = what;
  let description = [{
    `handler` is the symbol of a function. The op changes no value.
  }];
  let arguments = (ins FlatSymbolRefAttr:$handler);
  let assemblyFormat = "`(` `handler` `=` $handler `)` attr-dict";
}

class Sr_ManifestBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "requests the deployment manifest as JSON";
  let description = [{
    Tools write the manifest to `path`. `include` lists its parts: mesh, pipeline, optimizer, checkpoint,
    collectives, stages. If `include` is absent, the manifest has all parts.
  }];
  let arguments = manifestAttrs;
  let assemblyFormat = "attr-dict";
}

class Sr_ShardBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "shards the optimizer state of a parameter over an axis of the mesh";
  let description = [{
    The operands are a parameter, or states, or both; the results are the same values. `axis` names an axis of
    the mesh. `policy` is "zero1" (shards the state), "zero2" (state and gradient) or "zero3" (the parameter,
    too). Alternatively `shard` and `partition` state the axis and the policy. `mesh` names the axes:
    "dataxmodel" or ["data", "model"].
  }];
  let arguments = !con((ins Variadic<AnyType>:$inputs), shardAttrs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results)";
}

class Sr_ExportBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "makes the values of a token durable, after all operations that the token waits for";
  let description = [{
    The operand is the token of a critical stage.
  }];
  let arguments = (ins Sr_TokenType:$token);
  let assemblyFormat = "$token attr-dict `:` type($token)";
}

class Sr_ImportBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "returns the values of a region from its last export; zeros before the first export";
  let description = [{
    `%t, %v = tessera_sr.import "stage" : !tessera_sr.token, tensor<4xf32>` also returns the exported values
    after a restart. This op belongs before the region with this name.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Sr_TokenType:$token, Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "$name attr-dict `:` type($token) (`,` type($values)^)?";
}

// ---- the dialect's own ops -------------------------------------------------------------------

def Sr_CheckpointOp : Sr_CheckpointBase<Sr_Dialect, "checkpoint"> {
  let assemblyFormat = "$body attr-dict (`:` type($results)^)?";
}
def Sr_RecomputeHintOp : Sr_HintBase<Sr_Dialect, "recompute_hint">;
def Sr_ResilienceRegionOp : Sr_ResilienceBase<Sr_Dialect, "resilience_region"> {
  let assemblyFormat = "$body attr-dict `:` type($token) (`,` type($results)^)?";
}
def Sr_OnFailureOp : Sr_HandlerBase<Sr_Dialect, "on_failure", "runs the handler once for each failure">;
def Sr_OnRecoveryOp : Sr_HandlerBase<Sr_Dialect, "on_recovery",
    "runs the handler once for each recovery">;
def Sr_ExportManifestOp : Sr_ManifestBase<Sr_Dialect, "export_manifest">;
def Sr_OptimizerShardOp : Sr_ShardBase<Sr_Dialect, "optimizer_shard">;
def Sr_ExportOp : Sr_ExportBase<Sr_Dialect, "export">;
def Sr_ImportOp : Sr_ImportBase<Sr_Dialect, "import">;

// ---- ops that the passes create --------------------------------------------------------------

def Sr_BarrierOp : Sr_CommonOp<Sr_Dialect, "barrier"> {
  let summary = "returns its first operands after all operands are computed";
  let description = [{
    Values that the forward pass saved enter a replay through a barrier; the operands after them are gradients
    that must be computed first. The barrier delays a replay until the backward pass needs it, keeps the order
    of replays, and keeps recomputed values apart from the values that were not saved. The operands after the
    tensors may also be tokens to wait for; the last result may be a token that waits for all operands.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, OptionalAttr<I64Attr>:$segment);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results)";
}

// An inlined region: its ops are between an `enter` and a `leave`. Tokens are !tessera_sr.token at first;
// tessera-resilience-restart threads the tokens and gives them the type !async.token.
class Sr_OrderedOp<string mnemonic, string what> : Sr_CommonOp<Sr_Dialect, mnemonic> {
  let summary = what;
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}
def Sr_EnterOp : Sr_OrderedOp<"enter", "begins a region as soon as its tokens are complete"> {
  let description = [{
    The operands and the result are tokens. `mode` is "replay" or "restart"; `on_failure` names the handler.
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs, StrAttr:$mode,
      OptionalAttr<FlatSymbolRefAttr>:$on_failure);
}
def Sr_LeaveOp : Sr_OrderedOp<"leave", "ends a region, whose values must be finite"> {
  let description = [{
    The operands are the values that the region yields, then tokens, including the token of its enter. The
    result is a token.
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}
def Sr_ExportBeginOp : Sr_OrderedOp<"export_begin", "begins to store values as the next values of tensors"> {
  let description = [{
    The operands are the values, then one read of a tensor for each value, then tokens.
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}
def Sr_ImportBeginOp : Sr_OrderedOp<"import_begin", "begins to restore exported values"> {
  let description = [{
    The operands are reads of tensors, then tokens. The results are the values of the tensors, then a token.
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}

// Collectives along an axis of the mesh. Operand i is the contribution of position i; a single operand
// is the value that all positions have, or the sum of all contributions.
class Sr_CollectiveOp<string mnemonic, string what> : Sr_CommonOp<Sr_Dialect, mnemonic, [Pure]> {
  let summary = what;
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $result)";
}
class Sr_JoinOp<string mnemonic, string what> : Sr_CollectiveOp<mnemonic, what> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrAttr:$axis);
}
class Sr_TakeOp<string mnemonic, string what> : Sr_CollectiveOp<mnemonic, what> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrAttr:$axis, I64Attr:$position,
      I64Attr:$begin, I64Attr:$end);
}
def Sr_AllReduceOp : Sr_JoinOp<"all_reduce", "returns the sum over all positions to each position"> {
  let description = [{
    Operands and result have the same type. The sum follows the binary tree over positions, which splits at the
    largest power of two below their number. It is computed in f32, so that its bits do not depend on which
    ranks compute it.
  }];
}
def Sr_BroadcastOp : Sr_JoinOp<"broadcast", "returns the value of one position to each position"> {
  let description = [{
    Operand and result have the same type.
  }];
}
def Sr_AllGatherOp : Sr_JoinOp<"all_gather", "returns the concatenated slices of all positions to each position"> {
  let description = [{
    The operands are 1-D slices, which may be empty or differ in size. Together they have the elements of the
    result in row-major order.
  }];
}
def Sr_AssembleOp : Sr_JoinOp<"assemble",
    "returns a sharded view: a logical tensor whose slices stay at their positions; no bytes are sent"> {
  let description = [{
    The operands are like those of all_gather. tessera.assign uses the result: the state keeps its name and
    shape, and each position stores and writes its own elements.
  }];
}
def Sr_ReduceScatterOp : Sr_TakeOp<"reduce_scatter",
    "returns elements [begin, end) of the sum over positions to `position`"> {
  let description = [{
    The operands have the same type. The result is 1-D and has end - begin elements, possibly 0. The order of
    the sum is that of all_reduce.
  }];
}
def Sr_ShardSliceOp : Sr_TakeOp<"shard_slice",
    "returns elements [begin, end) of the row-major tensor, which `position` stores; no bytes are sent"> {
  let description = [{
    The result is 1-D and has end - begin elements, possibly 0; 0 <= begin <= end <= the number of the operand's
    elements.
  }];
}

// Pass tessera-autodiff creates this op for `clip_norm`, so that a norm does not depend on the distribution of elements.
def Sr_SquaresOp : Sr_CommonOp<Sr_Dialect, "squares", [Pure]> {
  let summary = "returns the sums of squares of V parts of a gradient";
  let description = [{
    `[...] -> [V]`: element i of the result is the sum of squares of elements [i c, (i + 1) c) of the row-major
    operand, with c = ceil(n / V). The sum is in f64 or in the operand's type, f32 or f64. Elements are first
    multiplied by `scale`, a power of two. For the result of a vrank_part, element i belongs to the part of
    virtual rank i.
  }];
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<F64Attr>:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

// ---- virtual ranks ---------------------------------------------------------------------------

// Pass tessera-virtual-ranks creates these ops: the ops between them run once for each virtual rank, on its rows.
class Sr_VrankOp_<string mnemonic, string what, string more> : Sr_CommonOp<Sr_Dialect, mnemonic, [Pure]> {
  let summary = what;
  let description = more;
  let results = (outs AnyRankedTensor:$result);
}
def Sr_VrankOp : Sr_VrankOp_<"vrank", "returns the number of the virtual rank, from 0",
    "The result is a scalar of an integer type. Random ops use it to number their elements as if there were no virtual "
    "ranks."> {
  let assemblyFormat = "attr-dict `:` type($result)";
}
class Sr_VrankTakeOp<string mnemonic, string what, string more> : Sr_VrankOp_<mnemonic, what, more> {
  let arguments = (ins AnyRankedTensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Sr_VrankRowsOp : Sr_VrankTakeOp<"vrank_rows", "returns the rows of an argument (along dim 0) that belong to the virtual rank",
    "`[N, ...] -> [N / V, ...]` for V virtual ranks; V divides N (TSR-0612). The rows of virtual rank i begin at i * N / V.">;
def Sr_VrankSumOp : Sr_VrankTakeOp<"vrank_sum", "returns the sum over virtual ranks, in the order of the binary tree",
    "The values of virtual ranks 2 i and 2 i + 1 are added, then these sums in pairs, and so on up to the root. The bits do "
    "not depend on the number of ranks that share the virtual ranks. `combine` is the function that adds two values."> {
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<FlatSymbolRefAttr>:$combine);
}
def Sr_VrankGatherOp : Sr_VrankTakeOp<"vrank_gather", "returns the values of all virtual ranks, concatenated along dim 0",
    "`[N, ...] -> [N * V, ...]`, in the order of the virtual ranks. Every rank gets the complete result.">;

def Sr_VrankAllToAllOp : Sr_VrankTakeOp<"vrank_all_to_all", "exchanges blocks between all pairs of virtual ranks",
    "Dim 0 has V blocks: block k of virtual rank i becomes block i of virtual rank k. The type is unchanged. At most 256 virtual "
    "ranks.">;

// Sharded optimizer state: a tensor of n elements, row-major, has V parts of c = ceil(n / V); virtual rank i has
// part i, a vector of c elements. Elements from index n on are unused padding. If V divides dim 0, a part may also have the
// tensor's dims, dim 0 divided by V.
def Sr_VrankPartOp : Sr_VrankTakeOp<"vrank_part", "returns the virtual rank's part of a value that all virtual ranks have",
    "The part of a tensor is read in place. For a sum over virtual ranks that no other op reads, each rank only computes "
    "the parts that it needs (reduce_scatter).">;
def Sr_VrankAllGatherOp : Sr_VrankTakeOp<"vrank_all_gather", "returns the tensor whose parts the virtual ranks have",
    "Every rank gets the complete tensor.">;
def Sr_VrankAssembleOp : Sr_VrankTakeOp<"vrank_assemble",
    "returns a sharded view: the tensor whose parts stay at their virtual ranks; no bytes are sent",
    "tessera.assign uses the result: each virtual rank writes its part, and a rank only stores the parts of its virtual "
    "ranks.">;

#endif
