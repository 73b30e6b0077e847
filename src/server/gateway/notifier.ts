/** Sends configured notices to a receiver: what clients have used, and changes of bans, backends, store and configuration. */
import { randomUUID } from 'node:crypto'
import { Outbox } from '../../insight/notify/outbox.ts'
import { QuotaMarks, type Suspect } from '../../insight/notify/quota-marks.ts'
import { loadFetch, post } from '../../insight/notify/webhook.ts'
import type { Notice, NotifyConfig, NotifyEvent } from '../../insight/notify/webhook.ts'
import type { Gateway } from './gateway.ts'

export function startNotifier({ reloads, live, log, counters, workers }: Gateway): void {
  const { claims } = workers.stores
  const config = (): NotifyConfig | undefined => reloads.config.notify
  if (config() !== undefined) loadFetch()
  const outbox = new Outbox({
    // A reload may have switched notices off.
    post: (notice) => {
      const notify = config()
      return notify && post(notify, notice, live.ended)
    },
    ended: live.ended,
    claims,
    onFault: (cause) => log.notifying({ cause }),
    onDropped: ({ type }) => log.noticeDropped({ type }),
  })
  const wants = (type: NotifyEvent): boolean => config()?.events.includes(type) === true
  const noticeOf = (type: NotifyEvent, data: object, id = randomUUID() as string): Notice => ({
    id,
    type,
    timestamp: new Date().toISOString(),
    data,
  })
  const marks = new QuotaMarks()
  const look = async (suspect: Suspect, wanted: readonly number[]): Promise<void> => {
    let [use] = await counters.look([suspect])
    if (use === undefined) return
    if (marks.isOpen(suspect, use, wanted)) {
      // Tokens in hand decide, so their holders state what they spent.
      use = await counters.settled(suspect)
      // Some tokens were taken again meanwhile, or a process that held them is gone.
      if (marks.isOpen(suspect, use, wanted)) marks.leaveOpen(suspect)
    }
    for (const { untilMs, ...data } of marks.reached(suspect, use, wanted)) {
      const name = `quota:${data.client}:${data.window}:${untilMs}:${data.mark}`
      const until = new Date(untilMs).toISOString()
      outbox.add(noticeOf('quota', { ...data, until }, name), { name, untilMs })
    }
  }
  live.onSecond = (second) => {
    const { at: wanted = [] } = config() ?? {}
    if (!wants('quota')) return
    marks.see(second, wanted)
    // No notices are sent while the store is away, as they might be false.
    for (const suspect of marks.due()) look(suspect, wanted).catch(() => marks.putBack(suspect))
  }
  live.events.subscriber = {
    wants: (type) => type !== 'tick' && type !== 'decision' && wants(type),
    receive: (type, data) => {
      if (type === 'tick' || type === 'decision') return
      if (!('until' in data)) return outbox.add(noticeOf(type, data))
      // All gateways of the store receive the same ban.
      const name = `ban:${data.key}:${data.since}`
      const untilMs = Math.max(Date.parse(data.until), Date.now() + 60_000)
      outbox.add(noticeOf(type, data, name), { name, untilMs })
    },
  }
}
