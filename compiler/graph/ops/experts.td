// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: mixtures of experts. Tokens are in groups, which are routed independently of each other: G groups of
// T tokens. Each of E experts has `capacity` slots for each group, numbered e * capacity + position; the number
// E * capacity stands for no slot.

def Tessera_MoeRouteOp : Tessera_FormOp<"moe_route", "Inferred", [Pure]> {
  let summary = "selects the k experts of each token, and their slots";
  let description = [{
    The operands are logits [G, T, E], f64 or f32, and optionally a limit [E], i64: at most so many slots of each
    expert are used in a group, and never more than `capacity`. A token goes to the experts with its k largest
    probabilities, softmax_safe(logits). First choices take slots before second choices, and so on; within a choice,
    tokens take slots in order. A token that finds no free slot is dropped by that expert.

    The results are the weights [G, T, k]: the probabilities of the selected experts, 0 if dropped, and with
    `normalize` first divided by their sum; the slots [G, T, k], i64; the balance, a scalar: E times the sum over
    experts of the share of choices times the mean probability (Fedus et al. 2021, section 2.2), which is 1 if the load
    is even; and the load [E], i64: how many choices each expert got, dropped ones included. Gradients pass through the
    weights and the balance.
  }];
  let arguments = (ins Tessera_Tensor:$logits, Optional<Tessera_Tensor>:$limit, I64Attr:$k, I64Attr:$capacity,
      DefaultValuedAttr<BoolAttr, "false">:$normalize);
  let results = (outs Tessera_Tensor:$weights, Tessera_Tensor:$slots, Tessera_Tensor:$balance, Tessera_Tensor:$load);
}

def Tessera_MoeDispatchOp : Tessera_ValueOp<"moe_dispatch", "Inferred"> {
  let summary = "puts the tokens into the slots of experts";
  let description = [{
    The operands are tokens [G, T, C], slots [G, T, k], i64, and optionally weights [G, T, k], by which tokens are
    multiplied. The result is [E, G, capacity, C]; slots without a token are 0. If several tokens have one slot, they
    are added in ascending order of their positions.
  }];
  let arguments = (ins Tessera_Tensor:$tokens, Tessera_Tensor:$slots, Optional<Tessera_Tensor>:$weights,
      I64Attr:$experts, I64Attr:$capacity);
}

def Tessera_MoeCombineOp : Tessera_ValueOp<"moe_combine", "Inferred"> {
  let summary = "sums for each token the contents of its slots, times weights";
  let description = [{
    The operands are [E, G, capacity, C], slots [G, T, k], i64, and weights [G, T, k]. The result is [G, T, C]; a slot
    that does not exist contributes 0. The sum over the k slots is in order.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$slots, Tessera_Tensor:$weights);
}

def Tessera_MoeDotOp : Tessera_ValueOp<"moe_dot", "Inferred"> {
  let summary = "returns the product of each token with the contents of each of its slots: the gradient of weights";
  let description = [{
    The operands are [E, G, capacity, C], slots [G, T, k], i64, and tokens [G, T, C]. The result is [G, T, k]; the
    product with a slot that does not exist is 0.
  }];
  let arguments = (ins Tessera_Tensor:$input, Tessera_Tensor:$slots, Tessera_Tensor:$tokens);
}
