/** `tollgate usage reset`: sets the use of a client back to 0, on all gateways within a second. */
import type { ResetDone } from '../../insight/api/usage.ts'
import { count } from '../../insight/format.js'
import { ask } from './admin-client.ts'
import { gatewayOf, printAnswer, type Asking, type Output } from './asking.ts'
import { OK } from '../terminal/fault.ts'

interface ResetOptions extends Asking {
  readonly client: string
  readonly window?: ResetDone['window']
}

export async function resetCommand(output: Output, options: ResetOptions): Promise<number> {
  const { client, window = 'both' } = options
  const path = `/api/clients/${encodeURIComponent(client)}/reset`
  const call = { method: 'POST', body: { window } } as const
  const done = await ask<ResetDone>(gatewayOf(output, options), path, call)
  await printAnswer(output, options, done, () => {
    for (const when of ['before', 'after'] as const)
      output.print(
        `${when.padEnd(7)} ${client} minute ${count(done[when].minute)}  day ${count(done[when].day)}`,
      )
    output.complain('undo    none: what was used before is forgotten; its day totals stay')
  })
  return OK
}
