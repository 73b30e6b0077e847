/** What tests need beyond npm: found, else installed with apt-get where that is allowed, else named with the command that installs it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** probe: a command and arguments that succeed once the package is there. `elsewhere`: how others than Debian and Ubuntu get it. */
export function ensurePackage(
  name: string,
  { probe, elsewhere }: { probe: readonly [string, ...string[]]; elsewhere?: string },
): void {
  const [command, ...args] = probe
  const isThere = (): boolean => spawnSync(command, args).status === 0
  if (isThere()) return
  const install = `apt-get update && apt-get install -y --no-install-recommends ${name}`
  const other = elsewhere === undefined ? '' : `, or ${elsewhere}`
  const remedy = `${name} is needed by the tests. Install it: ${install} (Debian, Ubuntu)${other}.`
  if (process.getuid?.() !== 0 || spawnSync('apt-get', ['--version']).error) throw new Error(remedy)
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    // One after the other: test files run side by side, and apt-get does not wait for another apt-get.
    const lock = join(tmpdir(), 'tollgate-apt.lock')
    const wanted = `(${probe.map((word) => `'${word}'`).join(' ')} || (${install}))`
    execFileSync('flock', [lock, 'sh', '-c', wanted], { stdio: 'ignore', env })
  } catch (cause) {
    throw new Error(remedy, { cause })
  }
  if (!isThere()) throw new Error(remedy)
}
