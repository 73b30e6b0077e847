/** What fast-check draws. */
import * as fc from 'fast-check'

export type Drawn<Of> = Of extends fc.Arbitrary<infer Value> ? Value : never

/** Each so often as its weight says. */
export const weighted = <Of extends (readonly [weight: number, fc.Arbitrary<unknown>])[]>(
  ...of: Of
) =>
  fc.oneof(...of.map(([weight, arbitrary]) => ({ weight, arbitrary }))) as fc.Arbitrary<
    Drawn<Of[number][1]>
  >
