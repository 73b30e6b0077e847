/** `tollgate config`: prints the configuration in force with its defaults, as a file would have it; never a secret. */
import type { effectiveConfig } from '../../admin/config/operations.ts'
import { plural } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import { ask } from './admin-client.ts'
import type { Output } from '../edge.ts'
import { asking, gatewayOf, printAnswer, type Asking } from './asking.ts'

export const config: Declaration = (program, { once }) =>
  asking(program, 'config', 'the configuration in force with its defaults, as YAML').action(
    once(() => configCommand),
  )

async function configCommand(output: Output, options: Asking): Promise<void> {
  const gateway = gatewayOf(output, options)
  const answer = await ask<ReturnType<typeof effectiveConfig>>(gateway, '/api/config')
  await printAnswer(output, options, answer, async () => {
    // It takes time to load.
    const { yamlLines } = await import('../../config/document.ts')
    for (const line of yamlLines(answer.written, 'block')) output.print(line)
    const next = `And ${plural(answer.clientCount, 'client')}: tollgate clients`
    if (output.screen !== undefined) output.complain(next)
  })
}
