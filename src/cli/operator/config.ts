/** `tollgate config`: prints the configuration in force with its defaults; never a secret. */
import type { effectiveConfig } from '../../admin/effective-config.ts'
import { id, text } from '../terminal/table.ts'
import { plural } from '../../insight/format.js'
import { listing } from './asking.ts'

type Setting = readonly [path: string, value: string]

/** One setting per line, such as server.listen, so that a line can be searched for. */
export const configCommand = listing<ReturnType<typeof effectiveConfig>, Setting>(
  () => '/api/config',
  ({ config, clientCount }) => ({
    rows: [...settingsIn({ ...config, clients: undefined }, '')],
    none: 'It is empty.',
    next: `And ${plural(clientCount, 'client')}: tollgate clients`,
    columns: [id('SETTING', ([path]) => path), text('VALUE', ([, value]) => value)],
  }),
)

function* settingsIn(value: unknown, path: string): Generator<Setting> {
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0)
    for (const [name, each] of Object.entries(value))
      yield* settingsIn(each, path === '' ? name : `${path}.${name}`)
  else if (value !== undefined)
    yield [path, typeof value === 'string' ? value : JSON.stringify(value)]
}
