/** `tollgate config`: prints the configuration in force with its defaults, as a file would have it; never a secret. */
import type { effectiveConfig } from '../../admin/config/operations.ts'
import { plural } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import type { Output } from '../edge.ts'
import { askAndPrint, asking, type Asking } from './asking.ts'

export const config: Declaration = (program, { once }) =>
  asking(program, 'config', 'the configuration in force with its defaults, as YAML').action(
    once(() => configCommand),
  )

type Effective = ReturnType<typeof effectiveConfig>

const configCommand = (output: Output, options: Asking) =>
  askAndPrint<Effective>(output, options, ['/api/config'], async ({ written, clientCount }) => {
    // It takes time to load.
    const { yamlLines } = await import('../../config/document.ts')
    for (const line of yamlLines(written, 'block')) output.print(line)
    const next = `And ${plural(clientCount, 'client')}: tollgate clients`
    if (output.screen !== undefined) output.complain(next)
  })
