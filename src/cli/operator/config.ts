/** `tollgate config`: prints the configuration in force with its defaults, as a file would have it; never a secret. */
import type { Effective } from '../../admin/config/operations.ts'
import { markedLines } from '../../config/changes/line-diff.ts'
import { plural } from '../../insight/format.js'
import { lookOf } from '../terminal/look.ts'
import type { Declaration } from '../program.ts'
import type { Output } from '../edge.ts'
import { ask, askAndPrint, asking, gatewayOf, type Asking } from './asking.ts'
import { reloadCommand } from './reload.ts'

export const config: Declaration = (program, { once }) =>
  asking(program, 'config', 'the configuration in force with its defaults, as YAML')
    .option('--diff', 'marks what a reload of the files would change, and says for whom')
    .action(once(() => configCommand))

const configCommand = (output: Output, options: Asking & { readonly diff?: boolean }) =>
  options.diff === true
    ? diffCommand(output, options)
    : askAndPrint<Effective>(output, options, ['/api/config'], async ({ written, clientCount }) => {
        for (const line of await linesOf(written)) output.print(line)
        const next = `And ${plural(clientCount, 'client')}: tollgate clients; what a reload of the files would change: tollgate config --diff`
        if (output.screen !== undefined) output.complain(next)
      })

/** What makes them takes time to load. */
const linesOf = async (written: Effective['written']): Promise<string[]> =>
  (await import('../../config/document.ts')).yamlLines(written, 'block')

const colours = { '-': 'red', '+': 'green', ' ': undefined } as const

async function diffCommand(output: Output, options: Asking): Promise<number> {
  const { written } = await ask<Effective>(gatewayOf(output, options), '/api/config')
  return reloadCommand(output, { ...options, dryRun: true }, async (files = written) => {
    const look = lookOf(output)
    for (const [sign, line] of markedLines(await linesOf(written), await linesOf(files)))
      output.print(look?.paint(colours[sign], `${sign} ${line}`) ?? `${sign} ${line}`)
  })
}
