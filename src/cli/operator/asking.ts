/** The common part of all commands that ask a running gateway: their options, and the answer as printed for a person or a program. */
import type { Command } from 'commander'
import type { Seen } from '../../insight/api/live.ts'
import { lookOf } from '../terminal/look.ts'
import { table } from '../terminal/table.ts'
import type { Column } from '../../tools/columns.ts'
import type { Output } from '../edge.ts'
import { adminUrl, TOKEN_HELP } from '../program.ts'
import { UNKNOWN, usage } from '../../insight/format.js'
import { ask, DEFAULT_ADMIN, type AdminOf } from './admin-client.ts'

export interface Asking {
  readonly admin?: string
  readonly json?: boolean
}

interface View<Row> {
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Printed instead of an empty table, on the standard error. */
  readonly none: string
  /** Printed after the table, for a person. */
  readonly next?: string | undefined
}

/** Declares a command that asks a running gateway. */
export const asking = (parent: Command, usage: string, description: string): Command =>
  parent
    .command(usage)
    .description(description)
    .option('--admin <url>', `its admin listener (default: ${DEFAULT_ADMIN})`, adminUrl)
    .option('--json', 'as JSON')
    .addHelpText('after', TOKEN_HELP)

export const gatewayOf = ({ env }: Output, { admin = DEFAULT_ADMIN }: Asking): AdminOf => ({
  admin,
  env,
})

/** The time of an answer; NaN where it has none. */
const nowOf = ({ asOf = '' }: Partial<Seen>): number => Date.parse(asOf)

/** A command that shows one answer of the admin API as a list. */
export const listing =
  <Shape extends object, Row, Options extends Asking = Asking>(
    pathOf: (options: Options) => string,
    viewOf: (answer: Shape, nowMs: number) => View<Row>,
  ) =>
  async (output: Output, options: Options): Promise<void> => {
    const answer = await ask<Shape>(gatewayOf(output, options), pathOf(options))
    const printed = () => printView(output, viewOf(answer, nowOf(answer)))
    await printAnswer(output, options, answer, printed)
  }

/** Prints an answer and what is missing from it; as JSON where that is asked for. */
export async function printAnswer(
  ...[output, { json }, answer, print]: [Output, Asking, object, () => void | Promise<void>]
): Promise<void> {
  for (const what of (answer as Partial<Seen>).missing ?? []) output.complain(`missing: ${what}`)
  if (json === true) output.print(JSON.stringify(answer, undefined, 2))
  else await print()
}

export async function printView<Row>(
  output: Output,
  { columns, rows, none, next }: View<Row>,
): Promise<void> {
  if (rows.length === 0) return output.complain(none)
  for await (const line of table(columns, rows, lookOf(output))) output.print(line)
  if (next !== undefined && output.screen !== undefined) output.complain(next)
}

interface Use {
  readonly used: number
  readonly limit: number
}

export const share = ({ used, limit }: Use): number => (limit === 0 ? 1 : used / limit)

/** A column of the use of a window, which is nearly used up at 80 %. more: what a person reads behind the numbers. */
export const windowColumn = <Row>(
  head: string,
  of: (row: Row) => Use | null,
  more: (share: number) => string,
): Column<Row> => ({
  head,
  kind: 'number',
  plain(row) {
    const use = of(row)
    return use && `${use.used}/${use.limit}`
  },
  text(row) {
    const use = of(row)
    return use === null ? UNKNOWN : `${usage(use)} ${more(share(use))}`
  },
  colour(row) {
    const use = of(row)
    return use === null || share(use) < 0.8 ? undefined : share(use) < 1 ? 'yellow' : 'red'
  },
})
