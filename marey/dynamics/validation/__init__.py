"""The validity check: could a body have made this motion?"""
