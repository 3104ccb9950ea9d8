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
  let summary = "orders export before import across a restart; !tessera.res.token is the same type";
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
}

class Sr_RegionOp<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic, [SingleBlock, NoTerminator]> {
  let regions = (region AnyRegion:$body);
}

class Sr_CheckpointBase<Dialect of, string mnemonic> : Sr_RegionOp<of, mnemonic> {
  let summary = "a segment whose values the backward pass may compute again";
  let description = [{
    `policy` is "full" (only what the segment reads is saved), "selective" (values that save many bytes
    for few operations are computed again, the others saved; the default) or "none". With
    `budget_bytes` selective goes on until at most so many bytes of the segment are saved. Values that
    are used outside leave through `tessera.yield`.
  }];
  let arguments = checkpointAttrs;
  let results = (outs Variadic<AnyTensor>:$results);
}

class Sr_HintBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "advises tessera-insert-recompute to find segments of this function by itself";
  let description = [{
    Stands in a function whose checkpoints are not marked. `policy` and `budget_bytes` as
    tessera_sr.checkpoint's.
  }];
  let arguments = checkpointAttrs;
  let assemblyFormat = "attr-dict";
}

class Sr_ResilienceBase<Dialect of, string mnemonic> : Sr_RegionOp<of, mnemonic> {
  let summary = "a critical stage: it runs whole, or again";
  let description = [{
    `mode` "replay" runs the stage again from its entry boundary, in place; "restart" (the default) goes
    on from the last exported token. Values that are used outside leave through `tessera.yield`.
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
  let summary = "asks for the deployment manifest, as JSON";
  let description = [{
    `path` is where tools write it; `include` names the parts: mesh, pipeline, optimizer, checkpoint,
    collectives, stages (all if absent).
  }];
  let arguments = manifestAttrs;
  let assemblyFormat = "attr-dict";
}

class Sr_ShardBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "the parameter's optimizer state is sharded over an axis of the mesh";
  let description = [{
    Operands: a parameter, or states, or both; the results are the same values. `axis` names an axis of
    the mesh, `policy` is "zero1" (state), "zero2" (state and gradient) or "zero3" (parameter too);
    or `shard` and `partition` say the same. `mesh` names the axes: "dataxmodel" or ["data", "model"].
  }];
  let arguments = !con((ins Variadic<AnyType>:$inputs), shardAttrs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results)";
}

class Sr_ExportBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "what the token stands for is made durable, after all that the token waits for";
  let description = [{
    The token is that of a critical stage.
  }];
  let arguments = (ins Sr_TokenType:$token);
  let assemblyFormat = "$token attr-dict `:` type($token)";
}

class Sr_ImportBase<Dialect of, string mnemonic> : Sr_CommonOp<of, mnemonic> {
  let summary = "what a region of this name yielded when it was last exported; zeros before the first time";
  let description = [{
    `%t, %v = tessera_sr.import "stage" : !tessera_sr.token, tensor<4xf32>`: the values come back after a
    restart, too. Stands before the region.
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
  let summary = "its results are its first operands, not before all operands are there";
  let description = [{
    Values saved by the forward pass enter a replay through a barrier; the operands behind them are
    gradients that come first. So a replay begins when the backward pass needs it, replays keep their
    order, and a value computed again is not taken for the one that was not saved. Operands behind the
    tensors may be tokens to wait for, and the last result a token that waits for all operands.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, OptionalAttr<I64Attr>:$segment);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results)";
}

// An inlined region: its ops are between these two. Tokens are !tessera_sr.token at first;
// tessera-resilience-restart threads them and makes them !async.token.
class Sr_OrderedOp<string mnemonic, string what> : Sr_CommonOp<Sr_Dialect, mnemonic> {
  let summary = what;
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}
def Sr_EnterOp : Sr_OrderedOp<"enter", "a region begins, when the tokens are there"> {
  let description = [{
    Operands are tokens; the result is one. `mode` is "replay" or "restart", `on_failure` the handler.
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs, StrAttr:$mode,
      OptionalAttr<FlatSymbolRefAttr>:$on_failure);
}
def Sr_LeaveOp : Sr_OrderedOp<"leave", "a region ends: what it yields must be finite"> {
  let description = "Operands: what the region yields, then tokens, its enter's among them; the result is a token.";
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}
def Sr_ExportBeginOp : Sr_OrderedOp<"export_begin", "begins to store values as the next ones of tensors"> {
  let description = "Operands: the values, as many reads of the tensors, then tokens.";
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}
def Sr_ImportBeginOp : Sr_OrderedOp<"import_begin", "begins to bring back what was exported"> {
  let description = "Operands: reads of tensors, then tokens. Results: their values, then a token.";
  let arguments = (ins StrAttr:$name, Variadic<AnyType>:$inputs);
}

// Collectives along an axis of the mesh. Operand i is the contribution of position i; a single operand
// is the value that all positions have, or its sum.
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
def Sr_AllReduceOp : Sr_JoinOp<"all_reduce", "the sum over positions, by the binary tree, at each"> {
  let description = [{
    Operands and result have one type. The sum follows the binary tree over positions, split at the largest
    power of two below their number, in f32, so that its bits do not depend on who computes it.
  }];
}
def Sr_BroadcastOp : Sr_JoinOp<"broadcast", "one position's value, at each"> {
  let description = [{
    Operand and result have one type.
  }];
}
def Sr_AllGatherOp : Sr_JoinOp<"all_gather", "the slices of all positions side by side, at each"> {
  let description = [{
    Operands are 1-D slices, perhaps empty or of unequal sizes, which add up to the elements of the result,
    row-major.
  }];
}
def Sr_AssembleOp : Sr_JoinOp<"assemble",
    "a logical tensor whose slices lie at their positions; nothing is sent"> {
  let description = [{
    Operands as all_gather's. For tessera.assign: state keeps its name and its shape while each position
    holds and writes its own elements.
  }];
}
def Sr_ReduceScatterOp : Sr_TakeOp<"reduce_scatter",
    "elements [begin, end) of the sum over positions, at `position`"> {
  let description = [{
    Operands have one type, the result is 1-D of end - begin elements, perhaps none. The sum is
    all_reduce's.
  }];
}
def Sr_ShardSliceOp : Sr_TakeOp<"shard_slice",
    "elements [begin, end) of the row-major tensor, which `position` holds; nothing is sent"> {
  let description = [{
    The result is 1-D of end - begin elements, perhaps none; 0 <= begin <= end <= the operand's elements.
  }];
}

// Created by tessera-autodiff for `clip_norm`, so that a norm does not depend on the distribution of elements.
def Sr_SquaresOp : Sr_CommonOp<Sr_Dialect, "squares", [Pure]> {
  let summary = "sums of squares of V parts of a gradient";
  let description = [{
    `[...] -> [V]`: element i is that of elements [i c, (i + 1) c) of the row-major operand, c = ceil(n / V),
    in f64 or in the operand's type, f32 or f64. Elements are multiplied by `scale`, a power of two, first.
    Of a vrank_part it is that of each virtual rank's part.
  }];
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<F64Attr>:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

// ---- virtual ranks ---------------------------------------------------------------------------

// Created by tessera-virtual-ranks: the ops between these are run once for each virtual rank, on its rows.
class Sr_VrankOp_<string mnemonic, string what, string more> : Sr_CommonOp<Sr_Dialect, mnemonic, [Pure]> {
  let summary = what;
  let description = more;
  let results = (outs AnyRankedTensor:$result);
}
def Sr_VrankOp : Sr_VrankOp_<"vrank", "the virtual rank's number, from 0",
    "A scalar of an integer type. Random ops count their elements from it, as if there were no virtual ranks."> {
  let assemblyFormat = "attr-dict `:` type($result)";
}
class Sr_VrankTakeOp<string mnemonic, string what, string more> : Sr_VrankOp_<mnemonic, what, more> {
  let arguments = (ins AnyRankedTensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Sr_VrankRowsOp : Sr_VrankTakeOp<"vrank_rows", "the virtual rank's rows of an argument: of dim 0",
    "`[N, ...] -> [N / V, ...]` for V virtual ranks; V divides N (TSR-0612). Virtual rank i has the rows from i * N / V.">;
def Sr_VrankSumOp : Sr_VrankTakeOp<"vrank_sum", "the sum over virtual ranks, by the binary tree",
    "Virtual ranks 2 i and 2 i + 1 are added, then what they gave, in pairs, up to the root: the same bits however "
    "many ranks share the virtual ranks. `combine` is the function that adds two."> {
  let arguments = (ins AnyRankedTensor:$input, OptionalAttr<FlatSymbolRefAttr>:$combine);
}
def Sr_VrankGatherOp : Sr_VrankTakeOp<"vrank_gather", "what all virtual ranks have, side by side along dim 0",
    "`[N, ...] -> [N * V, ...]`, in the order of the virtual ranks; every rank has the whole.">;

// Sharded optimizer state: a tensor of n elements, row-major, has V parts of c = ceil(n / V); virtual rank i has
// part i, a vector of c elements. Elements from index n on are unused padding.
def Sr_VrankPartOp : Sr_VrankTakeOp<"vrank_part", "the virtual rank's part of what all virtual ranks have",
    "Of a tensor, where it lies; of a sum over virtual ranks, what nobody else reads is summed only where it is needed "
    "(reduce_scatter).">;
def Sr_VrankAllGatherOp : Sr_VrankTakeOp<"vrank_all_gather", "the tensor whose parts the virtual ranks have, at each",
    "Every rank has the whole.">;
def Sr_VrankAssembleOp : Sr_VrankTakeOp<"vrank_assemble",
    "the tensor whose parts lie at their virtual ranks; nothing is sent",
    "For tessera.assign: each virtual rank writes its part, and a rank holds those of its virtual ranks alone.">;

#endif
