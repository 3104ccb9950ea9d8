// Open dims: built with `--dim N=1..64`, and with `--dim N=1,8,64`. `copy` is an input as an output, `fixed` does not depend on N.
module @open {
  func.func @predict(%x: tensor<?x24xf32, #tessera.dims<N>> {tessera.name = "x"}, %b: tensor<?x6xf32, #tessera.dims<"2*N">> {tessera.name = "b"},
      %s: tensor<10xf32> {tessera.name = "s"})
      -> (tensor<?x10xf32, #tessera.dims<N>> {tessera.name = "y"}, tensor<?xf32, #tessera.dims<"2*N">> {tessera.name = "z"},
          tensor<?x24xf32, #tessera.dims<N>> {tessera.name = "copy"}, tensor<10xf32> {tessera.name = "fixed"})
      attributes {tessera.entry = "infer", tessera.dims = ["N"]} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<24x40xf32>
    %v = tessera.param "v" init = #tessera.uniform<-0.5, 0.5> : tensor<40x10xf32>
    %0 = tessera.matmul %x, %w : tensor<?x24xf32, #tessera.dims<N>>, tensor<24x40xf32> -> tensor<?x40xf32, #tessera.dims<N>>
    %1 = tessera.tanh %0 : tensor<?x40xf32, #tessera.dims<N>>
    %2 = tessera.matmul %1, %v : tensor<?x40xf32, #tessera.dims<N>>, tensor<40x10xf32> -> tensor<?x10xf32, #tessera.dims<N>>
    %3 = tessera.add %2, %s : tensor<?x10xf32, #tessera.dims<N>>, tensor<10xf32> -> tensor<?x10xf32, #tessera.dims<N>>
    %4 = tessera.softmax_safe %3 {axis = 1} : tensor<?x10xf32, #tessera.dims<N>>
    %5 = tessera.sum %b {axes = [1]} : tensor<?x6xf32, #tessera.dims<"2*N">> -> tensor<?xf32, #tessera.dims<"2*N">>
    %6 = tessera.mul %s, %s : tensor<10xf32>
    return %4, %5, %x, %6 : tensor<?x10xf32, #tessera.dims<N>>, tensor<?xf32, #tessera.dims<"2*N">>, tensor<?x24xf32, #tessera.dims<N>>, tensor<10xf32>
  }
}
