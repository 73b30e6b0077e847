/** A file that imports this takes only the time of the processor that nobody else wants: it computes, on a time of its own, and hurries nobody. */
import { constants, setPriority } from 'node:os'

setPriority(constants.priority.PRIORITY_LOW)
