/** The sources that processes are started from. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')
export const sources = join(root, 'src', 'main.ts')
/** Halves what the start of a process costs, most of which is to strip types. Node.js compares the sources, so that nothing old is run. */
export const compileCache = join(root, 'node_modules', '.cache', 'node-compile')

/** Fills the cache once, so that the first processes of a run need not do so side by side. */
export function warmCompileCache(): void {
  const env = { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: compileCache }
  const config = join(root, 'config', 'gateway.yaml')
  spawnSync(process.execPath, [sources, 'check', '--config', config], { env })
}
