/** A master, a replica and the sentinels that watch them: real processes on free ports. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { atEnd } from './ending.ts'
import { temporaryFolder } from './processes.ts'
import { askRedis, isMaster } from './redis-shared.ts'
import { endOf, freePort, reached, startRedisServer, waitForPort } from './redis-server.ts'
import type { RedisServer } from './redis-server.ts'
import { until } from './until.ts'

export type SentinelGroup = Awaited<ReturnType<typeof startSentinelGroup>>

/** What the sentinels call the master. */
const name = 'quota'
const SENTINELS = 3

/** downAfterMs: a master that is silent for so long is failed over; longer than a busy machine holds one up. redis: further arguments of both servers. */
export async function startSentinelGroup({
  downAfterMs = 2_500,
  redis = [],
}: { downAfterMs?: number; redis?: readonly string[] } = {}) {
  const start = () => startRedisServer('--repl-diskless-sync-delay', '0', ...redis)
  const [master, replica] = await Promise.all([start(), start()])
  replica.cli('REPLICAOF', '127.0.0.1', String(master.port))
  await until(
    async () =>
      (await askRedis(replica.port, 'INFO replication')).includes('master_link_status:up'),
    'the replica in step',
  )
  const started = await Promise.all(
    Array.from({ length: SENTINELS }, () =>
      startSentinel(
        `sentinel monitor ${name} 127.0.0.1 ${master.port} 2`,
        `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
        `sentinel failover-timeout ${name} 3000`,
      ),
    ),
  )
  await until(async () => {
    const question = `SENTINEL MASTER ${name}`
    const answers = await Promise.all(started.map(({ port }) => askRedis(port, question)))
    return answers.every((answer) => {
      const facts = answer.split('\r\n')
      // Each value has its length before it.
      const fact = (key: string): string | undefined => facts[facts.indexOf(key) + 2]
      return fact('num-other-sentinels') === String(SENTINELS - 1) && fact('num-slaves') === '1'
    })
  }, 'sentinels that know each other and the replica')
  return {
    name,
    /** Master and replica at the start. */
    master,
    replica,
    sentinels: started,
    /** HOST:PORT of the sentinels. */
    addresses: started.map(({ port }) => `127.0.0.1:${port}`),
    /** Waits until all living sentinels name this server as the master, and it is one. */
    untilMaster: (server: RedisServer) =>
      until(async () => {
        const question = `SENTINEL GET-MASTER-ADDR-BY-NAME ${name}`
        const answers = await Promise.all(
          started.filter(({ isDown }) => !isDown()).map(({ port }) => askRedis(port, question)),
        )
        const areAgreed = answers.every((answer) => answer.includes(`\r\n${server.port}\r\n`))
        return areAgreed && (await isMaster(server.port))
      }, 'the failover'),
    stop: () => Promise.all([master, replica, ...started].map(({ kill }) => kill())),
  }
}

/** lines: what its configuration has besides its port and its folder. */
export async function startSentinel(...lines: string[]) {
  const directory = temporaryFolder()
  const file = join(directory, 'sentinel.conf')
  const port = await freePort()
  const all = [`port ${port}`, 'bind 127.0.0.1', `dir ${directory}`, ...lines, '']
  writeFileSync(file, all.join('\n'))
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' })
  await waitForPort(port, child)
  const kill = (): Promise<void> => endOf(child)
  atEnd(kill)
  const { cli } = reached(port)
  // One that stood still for two seconds would do nothing for half a minute (TILT).
  cli('SENTINEL', 'DEBUG', 'TILT-TRIGGER', '600000')
  return {
    port,
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
    isDown: () => child.exitCode !== null || child.signalCode !== null,
    cli,
  }
}
